# perl: regular expressions, hashes of lists, sorting, substitution over megabytes, closures, pack.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need perl
perl -e '
use strict; use warnings;
my $text = join " ", map { "token" . ($_ * 7919 % 10007) . ($_ % 3 ? "," : ".") } 1 .. 200_000;
my %places;
while ($text =~ /(\w+?)(\d+)([,.])/g) { push @{ $places{$2 % 5000} }, pos $text; }
print scalar(keys %places), "\n";
print join(",", map { "$_:" . scalar @{ $places{$_} } } (sort { @{ $places{$b} } <=> @{ $places{$a} } || $a <=> $b } keys %places)[0 .. 30]), "\n";
(my $other = $text) =~ s/(\d+)/sprintf("<%05x>", $1)/ge;
print length($other), " ", unpack("%32C*", $other), "\n";
my @records = map { { name => "n$_", list => [ 1 .. $_ % 50 ], code => sub { $_[0] + $_ } } } 1 .. 40_000;
@records = sort { @{ $a->{list} } <=> @{ $b->{list} } || $a->{name} cmp $b->{name} } @records;
print join(" ", map { $_->{name} } @records[100 .. 130]), "\n";
my $packed = pack "(N n/a*)*", map { ($_, "x" x ($_ % 300)) } 1 .. 20_000;
my @back = unpack "(N n/a*)*", $packed;
print scalar(@back), " ", length $packed, "\n";
my %tree; $tree{$_ % 10}{$_ % 100}{$_} = "v$_" for 1 .. 100_000; delete $tree{$_} for 0 .. 4;
print join(" ", sort keys %tree), "\n";
for my $round (1 .. 200) { my $s = "a" x 1000; $s .= $s for 1 .. 8; $s =~ tr/a/b/; die if length $s != 256_000; }
'
