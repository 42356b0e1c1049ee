# Toolchain: the host's processor with musl as C library, by musl's wrapper of gcc.  It has no C++ library.
# The wrapper knows no kernel headers; three links lend it the host's, and nothing else of the host's C library.
# SPDX-License-Identifier: BSD-2-Clause
set(CMAKE_C_COMPILER musl-gcc)
set(VMAG_TESTS_CXX OFF CACHE BOOL "musl's wrapper has no C++ library")
set(VMAG_TESTS_THREADS 20000 CACHE STRING "Fewer than where the processor's own C library is: a thread takes musl half as long again")

set(KERNEL_HEADERS ${CMAKE_BINARY_DIR}/kernel-headers)
file(MAKE_DIRECTORY ${KERNEL_HEADERS})
file(GLOB ASM_FOLDER /usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-*/asm /usr/include/asm)
foreach(folder /usr/include/linux /usr/include/asm-generic ${ASM_FOLDER})
  get_filename_component(name ${folder} NAME)
  file(CREATE_LINK ${folder} ${KERNEL_HEADERS}/${name} SYMBOLIC)
endforeach()
set(CMAKE_C_FLAGS_INIT "-isystem ${KERNEL_HEADERS}")
