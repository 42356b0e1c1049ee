# cache.*: object caches as a program sees them, against the shared library: a program each.
# SPDX-License-Identifier: BSD-2-Clause

# vmag_cache_test(NAME SECONDS)
function(vmag_cache_test name seconds)
  vmag_test_program(cache_${name} cache/${name}.c LIBRARIES vmag)
  target_link_options(cache_${name} PRIVATE -Wl,--no-as-needed)
  target_include_directories(cache_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
  vmag_test(cache.${name} quick ${seconds} cache_${name})
endfunction()

vmag_cache_test(create 20)
vmag_cache_test(model 60)
vmag_cache_test(threads 60)
vmag_cache_test(forks 60)
vmag_cache_test(shortage 30)
vmag_cache_test(resources 60)
vmag_cache_test(import 30)
vmag_cache_test(back 60)
vmag_cache_test(batches 20)
vmag_cache_test(move 60)
vmag_cache_test(fork_in_reclaim 60)
vmag_cache_test(fork_in_move 60)
vmag_cache_test(sandbox 20)

if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  vmag_test_program(cache_misuse cache/misuse.c LIBRARIES vmag)
  foreach(crime double_free double_free_constructed wrong_cache wrong_cache_constructed inside stack malloc_object to_free
                destroyed_cache freed_to_destroyed destroyed_twice destroyed_by_reclaim
                destroyed_by_reclaim_of_all destroyed_by_childs_reclaim)
    vmag_test(cache.misuse.${crime} quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/misuse/expect_report.py
              $<TARGET_FILE:cache_misuse> ${crime})
  endforeach()
  vmag_test_program(cache_not_empty cache/not_empty.c LIBRARIES vmag)
  target_include_directories(cache_not_empty PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  vmag_test(cache.not_empty quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cache/not_empty.py $<TARGET_FILE:cache_not_empty>)

  vmag_test_program(cache_inject cache/inject.c LIBRARIES vmag)
  target_include_directories(cache_inject PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  vmag_test(cache.nth_call slow 120 nomem_inject $<TARGET_FILE:cache_inject>)
  vmag_test(cache.nth_call_onward slow 120 nomem_inject --onward $<TARGET_FILE:cache_inject>)

  # Only an ordinary build has the fast path that is bound.
  if(NOT VMAG_DEBUG AND NOT VMAG_UBSAN AND CMAKE_BUILD_TYPE STREQUAL "Release")
    vmag_test_program(cache_fast_path cache/fast_path.c LIBRARIES vmag)
    target_include_directories(cache_fast_path PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    vmag_test(cache.fast_path slow 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/cache/fast_path.py $<TARGET_FILE:cache_fast_path>)
  endif()
endif()

# The example of composed arenas is built and run.
vmag_test_program(example_composed ${CMAKE_SOURCE_DIR}/examples/composed.c LIBRARIES vmag)
vmag_test(cache.example_composed quick 30 example_composed)

# Ten seconds of doing nothing.
vmag_test_program(cache_idle cache/idle.c LIBRARIES vmag)
target_link_options(cache_idle PRIVATE -Wl,--no-as-needed)
vmag_test(cache.idle slow 60 cache_idle)
