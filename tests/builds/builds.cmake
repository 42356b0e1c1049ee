# builds.*: the project built in its variants (another processor, another C library, sanitizers, checks), tests and all.
# SPDX-License-Identifier: BSD-2-Clause

# Within a variant the variants end.
get_filename_component(COMPILER_NAME ${CMAKE_C_COMPILER} NAME)
if(NOT VMAG_UBSAN AND NOT VMAG_TSAN AND NOT VMAG_DEBUG AND NOT COMPILER_NAME STREQUAL "musl-gcc")
  foreach(variant aarch64 musl ubsan debug clang tsan)
    vmag_test(builds.${variant} slow 420 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/builds/variant.py ${CMAKE_SOURCE_DIR} ${variant})
  endforeach()
endif()
