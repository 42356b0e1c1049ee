# rseq.*: restartable sequences interrupted at every instruction, in a storm of signals and while threads hop between
# processors; and the fronts of processors made of them.
# SPDX-License-Identifier: BSD-2-Clause

foreach(name storm abort)
  if(name STREQUAL "abort" AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
    continue() # by the debug registers of x86-64
  endif()
  vmag_test_program(rseq_${name} rseq/${name}.c LIBRARIES vmag_objects)
  target_include_directories(rseq_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
  target_compile_definitions(rseq_${name} PRIVATE _GNU_SOURCE)
  vmag_test(rseq.${name} quick 60 rseq_${name})
endforeach()

# On fronts of processors: a test of their own, and some of other families. Without restartable sequences the first says so.
vmag_test_program(rseq_fronts rseq/fronts.c LIBRARIES vmag)
target_compile_definitions(rseq_fronts PRIVATE _GNU_SOURCE)

function(vmag_cpu_test name seconds)
  vmag_test(rseq.${name} quick ${seconds} ${ARGN})
  set_tests_properties(rseq.${name} PROPERTIES ENVIRONMENT "VMAG_CONF=front:cpu")
endfunction()

vmag_cpu_test(fronts 60 rseq_fronts)
# Where the C library registered nothing, fronts of threads serve.
vmag_test(rseq.unregistered quick 60 rseq_fronts)
set_tests_properties(rseq.unregistered PROPERTIES ENVIRONMENT "VMAG_CONF=front:cpu;GLIBC_TUNABLES=glibc.pthread.rseq=0")
foreach(name allocate calloc realloc sized_free errors trim)
  vmag_cpu_test(surface.${name} 120 surface_${name}_shared)
endforeach()
vmag_cpu_test(stress.8 60 stress --threads 8 --seconds 2 --profile mixed)
vmag_cpu_test(stress.static 60 stress_static --threads 64 --seconds 2 --profile small)
if(TARGET life_thread_end)
  foreach(name thread_end fork_first_use idle)
    vmag_cpu_test(life.${name} 120 life_${name})
  endforeach()
  vmag_cpu_test(life.dlopened 60 life_dlopened $<TARGET_FILE:vmag>)
  vmag_cpu_test(life.static_program 60 life_static_program)
endif()
if(TARGET misuse_double_free_small)
  vmag_cpu_test(misuse.double_free_small 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/misuse/expect_report.py $<TARGET_FILE:misuse_double_free_small>)
endif()
