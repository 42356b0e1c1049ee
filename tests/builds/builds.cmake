# builds.*: the project built in its variants (another processor, another C library, sanitizers, checks), tests and all.
# SPDX-License-Identifier: BSD-2-Clause

option(VMAG_TESTS_BUILDS "Test the variants of the build; off within a variant" ON)
if(VMAG_TESTS_BUILDS)
  foreach(variant aarch64 musl ubsan debug clang)
    vmag_test(builds.${variant} slow 420 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/builds/variant.py ${CMAKE_SOURCE_DIR} ${variant})
  endforeach()
endif()
