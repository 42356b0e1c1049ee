# java: the compiler in memory, threads, a heap of a few hundred MiB, native compression, direct buffers.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need java
cp "$SOURCES/JavaProgram.java" .
java -Xmx300m -XX:+UseParallelGC JavaProgram.java
