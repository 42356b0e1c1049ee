# The job of cca in the 2006 paper: finds the preprocessor's logic in C sources with regular expressions and counts what depends on what.
# Usage: preprocessor.pl SOURCE ROUNDS
# SPDX-License-Identifier: BSD-2-Clause
use strict;
use warnings;

my ($file, $rounds) = @ARGV;
open(my $in, '<', $file) or die "$file: $!";
my $text = do { local $/; <$in> };

# A line with its continuations, comments away, as a list of what it is and its words.
sub parse {
    my ($source) = @_;
    $source =~ s{/\*.*?\*/}{ }gs;
    $source =~ s{//[^\n]*}{}g;
    $source =~ s{\\\n}{ }g;
    my (@logic, @stack);
    for my $line (split /\n/, $source) {
        if ($line =~ /^\s*#\s*(ifdef|ifndef|if|elif|else|endif|define|undef|include)\b\s*(.*?)\s*$/) {
            my ($word, $rest) = ($1, $2);
            my @names = $rest =~ /\b([A-Za-z_]\w*)\b/g;
            if ($word =~ /^if/) { push @stack, { kind => $word, names => [@names], lines => 0 } }
            elsif ($word eq 'endif') { pop @stack }
            push @logic, { word => $word, names => \@names, text => $rest, depth => scalar @stack, inside => [map { @{ $_->{names} } } @stack] };
        } else {
            $_->{lines}++ for @stack;
            push @logic, { word => 'call', names => [$1], text => $line, depth => scalar @stack, inside => [] } while $line =~ /\b([a-z_]\w{2,})\s*\((?=[^()]*(?:\([^()]*\)[^()]*)*\))/g;
        }
    }
    return \@logic;
}

my (%uses, %calls, %depths);
for my $round (1 .. $rounds) {
    my $logic = parse($text);
    for my $item (@$logic) {
        if ($item->{word} eq 'call') { $calls{ $item->{names}[0] }++ }
        else {
            for my $name (@{ $item->{names} }) {
                $uses{$name}{$_}++ for @{ $item->{inside} };
                $uses{$name}{total}++;
            }
            $depths{ $item->{depth} }++;
        }
    }
}
my @frequent = (sort { $calls{$b} <=> $calls{$a} || $a cmp $b } keys %calls)[0 .. 9];
printf "%d names, %d functions, deepest %d: %s\n", scalar keys %uses, scalar keys %calls, (sort { $b <=> $a } keys %depths)[0], join(' ', @frequent);
