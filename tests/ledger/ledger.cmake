# ctl.ledger.*: vmag_ledger sums, and each row moves by what the program does to it.
# SPDX-License-Identifier: BSD-2-Clause

foreach(kind shared static)
  set(library vmag)
  if(kind STREQUAL static)
    set(library vmag_static)
  endif()
  vmag_test_program(ledger_rows_${kind} ledger/rows.c LIBRARIES ${library})
  target_include_directories(ledger_rows_${kind} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  vmag_test(ctl.ledger.${kind} quick 60 ledger_rows_${kind})
  set_tests_properties(ctl.ledger.${kind} PROPERTIES ENVIRONMENT "VMAG_CONF=dirty_decay_ms:20000,thp:false")
endforeach()
