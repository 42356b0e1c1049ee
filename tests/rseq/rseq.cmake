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
vmag_test(rseq.storm.mm_cid quick 60 rseq_storm mm_cid)
