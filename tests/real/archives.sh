# tar, xz with threads, gzip, bzip2, zstd, sort with threads: what was packed comes out again.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need tar
need xz
need sort
awk 'BEGIN { for (i = 1; i <= 200000; i++) print i * 7919 % 1000003, "line", i, i * i % 9973 }' > lines
mkdir folder
split -l 2000 lines folder/part.
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf folder.tar folder
cksum folder.tar
xz -T2 -3 -k --block-size=1MiB folder.tar
cksum folder.tar.xz
xz -dc folder.tar.xz | cmp - folder.tar
gzip -nc folder.tar | cksum
for program in bzip2 zstd lz4; do
    if command -v $program >/dev/null; then $program -c < folder.tar > packed; $program -dc < packed | cmp - folder.tar; cksum packed; fi
done
sort --parallel=2 -S 4M -n lines | cksum
sort --parallel=2 -k4,4n -k1,1n lines | cksum
sort -u -k4,4 lines | wc -l
tar -xJf folder.tar.xz --to-command='cksum' | cksum
