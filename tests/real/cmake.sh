# cmake: configures and generates a project of hundreds of targets, twice; what it generates must be the same.
# SPDX-License-Identifier: BSD-2-Clause
. "$SOURCES/need.sh"
need cmake
need make
mkdir source
{
    echo 'cmake_minimum_required(VERSION 3.13)'
    echo 'project(many NONE)'
    awk 'BEGIN { for (i = 1; i <= 200; i++) { printf "add_custom_target(target%d ALL COMMAND ${CMAKE_COMMAND} -E echo %d VERBATIM)\n", i, i;
        if (i > 3) printf "add_dependencies(target%d target%d target%d)\n", i, i - 1, int(i / 2);
        printf "foreach(n RANGE 40)\n string(REGEX REPLACE \"([0-9]+)\" \"<\\\\1>\" out%d \"a${n}b%d\")\n list(APPEND all_outputs \"${out%d}\")\nendforeach()\n", i, i, i } }'
    echo 'list(SORT all_outputs)'
    echo 'string(SHA256 digest "${all_outputs}")'
    echo 'message(STATUS "digest ${digest}")'
} > source/CMakeLists.txt
cmake -G 'Unix Makefiles' -S source -B build | grep digest
cmake -S source -B build | grep digest
find build -name '*.make' -o -name 'Makefile*' | sort | xargs cat | sort | cksum   # unordered sets of pointers decide the order of lines
cmake --build build --target target37 -- -s | tail -3
