# builds.*: the library built in its variants (another processor, another C library, checks and sanitizer, another compiler) and tested there; and the
# project as others build and use it.
# SPDX-License-Identifier: BSD-2-Clause

option(VMAG_TESTS_BUILDS "Test the variants of the build; off within a variant" ON)
if(VMAG_TESTS_BUILDS)
  foreach(variant aarch64 musl checked clang)
    vmag_test(builds.${variant} slow 420 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/builds/variant.py ${PROJECT_SOURCE_DIR} ${variant})
  endforeach()
  vmag_test(builds.package slow 90 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/builds/package.py ${PROJECT_SOURCE_DIR})
  # The longest of all: one at a time from the beginning, beside the many that mostly wait.
  set_tests_properties(builds.aarch64 builds.musl builds.checked builds.clang builds.package PROPERTIES COST 1000 RESOURCE_LOCK builds)
endif()
