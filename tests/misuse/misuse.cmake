# misuse.*: one tiny program a misuse, each judged by expect_report.py.
# SPDX-License-Identifier: BSD-2-Clause

set(MISUSE_C
    free_interior_small free_interior_large free_misaligned free_misaligned_large free_stack free_static free_mapped free_code
    double_free_small double_free_small_later double_free_thread double_free_dead double_free_large double_free_huge double_free_sized
    realloc_freed realloc_foreign realloc_interior realloc_interior_small usable_size_foreign
    sized_wrong_large sized_wrong_larger sized_wrong_small sized_small_as_large sized_foreign
    aligned_sized_wrong_size aligned_sized_wrong_alignment aligned_sized_odd_alignment)
set(MISUSE_CXX delete_sized_wrong delete_foreign)

# Null page, first page, last page, non-canonical, kernel half, and the ends of the lower half.
set(HOSTILE_VALUES 1 10 fff fffffffffffffff0 ffffffffffffffff 8000000000000000 deadbeefdeadbeef ffff800000000000 00007ffffffffff0
                   0000800000000000 ffffffff80000000 100000000)

set(EXPECT_REPORT ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/misuse/expect_report.py)

function(vmag_misuse_test name source)
  vmag_test_program(misuse_${name} misuse/${source} LIBRARIES vmag)
  target_compile_options(misuse_${name} PRIVATE -Wno-free-nonheap-object $<$<C_COMPILER_ID:GNU>:-Wno-use-after-free>)
  vmag_test(misuse.${name} quick 60 ${EXPECT_REPORT} $<TARGET_FILE:misuse_${name}>)
endfunction()

foreach(name IN LISTS MISUSE_C)
  vmag_misuse_test(${name} ${name}.c)
endforeach()
if(VMAG_TESTS_CXX)
  foreach(name IN LISTS MISUSE_CXX)
    vmag_misuse_test(${name} ${name}.cpp)
  endforeach()
endif()

vmag_test_program(misuse_hostile misuse/hostile.c LIBRARIES vmag)
foreach(value IN LISTS HOSTILE_VALUES)
  foreach(call free realloc malloc_usable_size)
    vmag_test(misuse.hostile.${call}.${value} quick 60 ${EXPECT_REPORT} $<TARGET_FILE:misuse_hostile> ${call} ${value})
  endforeach()
endforeach()

vmag_test_program(misuse_foreign_allocator misuse/foreign_allocator.c LIBRARIES vmag)
foreach(size 24 5000 1000000)
  vmag_test(misuse.foreign_allocator.${size} quick 60 ${EXPECT_REPORT} $<TARGET_FILE:misuse_foreign_allocator> ${size})
endforeach()

vmag_test_program(misuse_double_free_at_once misuse/double_free_at_once.c LIBRARIES vmag)
target_compile_options(misuse_double_free_at_once PRIVATE $<$<C_COMPILER_ID:GNU>:-Wno-use-after-free>)
foreach(size 8 4096 65536)
  vmag_test(misuse.double_free_at_once.${size} quick 60 ${EXPECT_REPORT} env VMAG_CONF=tcache:false $<TARGET_FILE:misuse_double_free_at_once> ${size})
endforeach()
