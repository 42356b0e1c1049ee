# ctl.ledger.*: vmag_ledger sums, and each row moves by what the program does to it; explain.*: so does what the command tells.
# SPDX-License-Identifier: BSD-2-Clause

foreach(kind shared static)
  set(library vmag)
  if(kind STREQUAL static)
    set(library vmag_static)
  endif()
  vmag_test_program(ledger_rows_${kind} ledger/rows.c LIBRARIES ${library})
  target_include_directories(ledger_rows_${kind} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  vmag_test(ctl.ledger.${kind} quick 60 ledger_rows_${kind})
  set_tests_properties(ctl.ledger.${kind} PROPERTIES ENVIRONMENT "VMAG_CONF=dirty_decay_ms:-1,thp:never")
endforeach()

vmag_test_program(ledger_sampled ledger/sampled.c LIBRARIES vmag)
target_include_directories(ledger_sampled PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.ledger.sampled quick 60 ledger_sampled)
set_tests_properties(ctl.ledger.sampled PROPERTIES ENVIRONMENT "VMAG_CONF=prof:true,lg_prof_sample:0,thp:never")

vmag_test_program(ledger_busy ledger/busy.c LIBRARIES vmag)
target_include_directories(ledger_busy PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.ledger.busy quick 120 ledger_busy)

if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  vmag_test_program(ledger_self ledger/self.c LIBRARIES vmag)
  target_include_directories(ledger_self PRIVATE ${CMAKE_SOURCE_DIR}/include)
  vmag_test(explain.known quick 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ledger/explain.py $<TARGET_FILE:vmag>
            ${CMAKE_BINARY_DIR}/bin/vmag $<TARGET_FILE:ledger_self>)
endif()
