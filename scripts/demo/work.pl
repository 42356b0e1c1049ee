# The demo's work in Perl: an index over Perl's own library, written out and read back, and large hashes.
#
# Says what it did in one line, and checks its own results. With DEMO_FIGURES=FILE it appends its seconds (wall,
# processor) and its peak resident KiB to that file.
# SPDX-License-Identifier: BSD-2-Clause
use strict;
use warnings;

use constant SOURCE_FILES => 40;
use constant INDEX_ROUNDS => 2;
use constant HASH_KEYS    => 100_000;

my $started = wall_seconds();
my @files   = source_files();
my $index   = index_words(@files);
for (1 .. INDEX_ROUNDS) {
    my $again = read_index(write_index($index));
    die "the index changed on its way" if keys %$again != keys %$index;
    $index = $again;
}
my $kept = grow_hash();
printf "%d files, %d words, %d keys\n", scalar @files, scalar keys %$index, $kept;
write_figures(wall_seconds() - $started);

sub source_files {
    my @found = sort map { glob "$_/*.p[lm] $_/*/*.pm" } grep { !ref && -d } @INC;
    return @found[0 .. (@found < SOURCE_FILES ? $#found : SOURCE_FILES - 1)];
}

# word => list of [file number, line number]
sub index_words {
    my (@paths) = @_;
    my %places;
    for my $number (0 .. $#paths) {
        open my $source, '<', $paths[$number] or next;
        while (my $line = <$source>) {
            push @{ $places{$_} }, [$number, $.] for $line =~ /(\w+)/g;
        }
    }
    return \%places;
}

sub write_index {
    my ($places) = @_;
    return join "\n", map { join ' ', $_, map { join ':', @$_ } @{ $places->{$_} } } sort keys %$places;
}

sub read_index {
    my ($text) = @_;
    my %places;
    for my $line (split /\n/, $text) {
        my ($word, @pairs) = split / /, $line;
        $places{$word} = [map { [split /:/] } @pairs];
    }
    return \%places;
}

# Builds a large hash, drops every other key, joins and splits what is left.
sub grow_hash {
    my %table = map { sprintf('key %x', $_ * 2654435761 % 2**32) => 'value ' x ($_ % 9) } 1 .. HASH_KEYS;
    my $turn = 0;
    delete $table{$_} for grep { $turn++ % 2 } sort keys %table;
    my @lines = split /\n/, join "\n", map { "$_=" . uc $table{$_} } sort keys %table;
    die "lines were lost" if @lines != keys %table;
    return scalar @lines;
}

sub wall_seconds {
    return eval { require Time::HiRes; Time::HiRes::time() } // time;
}

sub write_figures {
    my ($wall_seconds) = @_;
    my $path = $ENV{DEMO_FIGURES} or return;
    my ($user, $system) = times;
    open my $status, '<', '/proc/self/status' or die "/proc/self/status: $!";
    my ($peak_kib) = map { /^VmHWM:\s*(\d+)/ ? $1 : () } <$status>;
    open my $figures, '>>', $path or die "$path: $!";
    print {$figures} "$wall_seconds ", $user + $system, " $peak_kib\n";
}
