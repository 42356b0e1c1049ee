# life.*: before main and after it, threads' ends, forks, dlopen, static programs, cancellation, signals, idleness.
# SPDX-License-Identifier: BSD-2-Clause

set(LIFE_QUICK borrowed exit_with_threads last_thread silent_threads spawn cancel signals fork_in_handler thread_end fork_first_use idle)
set(LIFE_SLOW many_threads forks)

foreach(name IN LISTS LIFE_QUICK LIFE_SLOW)
  vmag_test_program(life_${name} life/${name}.c LIBRARIES vmag)
endforeach()
foreach(name IN LISTS LIFE_QUICK)
  vmag_test(life.${name} quick 120 life_${name})
endforeach()
foreach(name IN LISTS LIFE_SLOW)
  vmag_test(life.${name} slow 180 life_${name})
endforeach()
vmag_test_program(life_arena_thread life/arena_thread.c LIBRARIES vmag)
foreach(command destroy reset)
  vmag_test(life.arena_thread.${command} quick 60 life_arena_thread ${command})
endforeach()
if(VMAG_TESTS_CXX)
  vmag_test_program(life_thread_local life/thread_local.cpp LIBRARIES vmag)
  vmag_test(life.thread_local quick 60 life_thread_local)
endif()

# Both link orders: the loader initialises, and later finalises, the dependency before us or after us.
add_library(life_dependency SHARED life/dependency_library.c)
target_compile_options(life_dependency PRIVATE ${TEST_C_FLAGS})
foreach(name before_main fork_handlers)
  vmag_test_program(life_${name}_first life/${name}.c LIBRARIES vmag life_dependency)
  vmag_test_program(life_${name}_last life/${name}.c LIBRARIES life_dependency vmag)
  vmag_test_program(life_${name}_archive life/${name}.c LIBRARIES vmag_static life_dependency)
  foreach(variant first last archive)
    vmag_test(life.${name}.${variant} quick 90 life_${name}_${variant})
  endforeach()
endforeach()

vmag_test_program(life_closed_descriptors life/closed_descriptors.c LIBRARIES vmag)
foreach(option heap_source:memory_file=heap trace:${CMAKE_CURRENT_BINARY_DIR}/closed)
  string(REGEX REPLACE ":.*" "" name ${option})
  vmag_test(life.closed_descriptors.${name} quick 60 life_closed_descriptors)
  set_tests_properties(life.closed_descriptors.${name} PROPERTIES ENVIRONMENT "VMAG_CONF=${option}")
endforeach()

vmag_test_program(life_dlopened life/dlopened.c)
vmag_test(life.dlopened quick 60 life_dlopened $<TARGET_FILE:vmag>)

# In a folder of its own, which only the program's run path names.
add_library(life_deepbind SHARED life/deepbind_library.c)
target_compile_options(life_deepbind PRIVATE ${TEST_C_FLAGS})
set_target_properties(life_deepbind PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/deepbind)
vmag_test_program(life_deepbind_program life/deepbind.c LIBRARIES vmag)
target_link_options(life_deepbind_program PRIVATE -Wl,-rpath,${CMAKE_CURRENT_BINARY_DIR}/deepbind)
add_dependencies(life_deepbind_program life_deepbind)
vmag_test(life.deepbind quick 60 life_deepbind_program)
vmag_test(life.deepbind.kept quick 60 ${CMAKE_COMMAND} -E env VMAG_CONF=dlopen_deepbind:true $<TARGET_FILE:life_deepbind_program>)
set_tests_properties(life.deepbind.kept PROPERTIES PASS_REGULAR_EXPRESSION "not an object of this heap")

vmag_test_program(life_thread_memory life/thread_memory.c LIBRARIES vmag)
vmag_test(life.thread_memory quick 60 life_thread_memory)
vmag_test(life.thread_memory.sampled quick 60 life_thread_memory)
set_tests_properties(life.thread_memory.sampled PROPERTIES ENVIRONMENT "VMAG_CONF=prof:true,lg_prof_sample:12,prof_final:false")

vmag_test_program(life_unseen_ends life/unseen_ends.c LIBRARIES vmag)
foreach(background true false)
  vmag_test(life.unseen_ends.background_${background} quick 60 life_unseen_ends ${CMAKE_CURRENT_BINARY_DIR}/unseen_${background})
  set_tests_properties(life.unseen_ends.background_${background} PROPERTIES ENVIRONMENT "VMAG_CONF=background_thread:${background}")
endforeach()

foreach(kib 230 246 300)
  vmag_test_program(life_stack_of_background_${kib} life/stack_of_background.c LIBRARIES vmag)
  target_compile_definitions(life_stack_of_background_${kib} PRIVATE MEMORY_BYTES=${kib}*1024)
  vmag_test(life.stack_of_background.${kib} quick 60 life_stack_of_background_${kib})
  set_tests_properties(life.stack_of_background.${kib} PROPERTIES ENVIRONMENT "VMAG_CONF=sleeper_ms:100")
endforeach()

vmag_test_program(life_own_pthread_create life/own_pthread_create.c LIBRARIES vmag)
vmag_test(life.own_pthread_create quick 60 life_own_pthread_create)

vmag_test_program(life_no_keys life/no_keys.c)
vmag_test(life.no_keys quick 60 life_no_keys $<TARGET_FILE:vmag>)

vmag_test_program(life_static_program life/static_program.c LIBRARIES vmag_static)
target_link_options(life_static_program PRIVATE -static)
vmag_test(life.static_program quick 60 life_static_program)

vmag_test_program(life_footprint life/footprint.c)
vmag_test(life.footprint quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/life/footprint.py $<TARGET_FILE:vmag>
          $<TARGET_FILE:life_footprint>)
if(VMAG_LAYOUT)
  vmag_test_program(life_fresh life/fresh.c)
  vmag_test(life.fresh quick 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/life/fresh.py $<TARGET_FILE:vmag> $<TARGET_FILE:life_fresh>)
endif()

foreach(variant vmag vmag_static)
  vmag_test_program(life_secure_${variant} life/secure.c LIBRARIES ${variant})
  vmag_test(life.secure.${variant} quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/life/secure.py
            $<TARGET_FILE:life_secure_${variant}>)
endforeach()
