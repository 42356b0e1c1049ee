# watch.*: the sampling profiler from outside: its estimates, its dumps, and profiling while everything else goes on.
# SPDX-License-Identifier: BSD-2-Clause

set(WATCH ${CMAKE_CURRENT_SOURCE_DIR}/watch)
vmag_test_program(watch_sites watch/sites.c)
vmag_test(watch.unbiased slow 300 ${PYTHON} ${WATCH}/unbiased.py $<TARGET_FILE:vmag> $<TARGET_FILE:watch_sites>)
vmag_test(watch.final quick 60 ${PYTHON} ${WATCH}/dumps.py $<TARGET_FILE:vmag> final $<TARGET_FILE:watch_sites> large)
vmag_test_program(watch_everything watch/everything.c watch/throwing.cpp)
vmag_test(watch.everything slow 120 ${PYTHON} ${WATCH}/dumps.py $<TARGET_FILE:vmag> everything $<TARGET_FILE:watch_everything> 6)
vmag_test(watch.tool quick 120 ${PYTHON} ${WATCH}/tool.py ${CMAKE_BINARY_DIR}/bin/vmag $<TARGET_FILE:vmag> $<TARGET_FILE:watch_sites>)
vmag_test_program(watch_controls watch/controls.c LIBRARIES vmag)
target_include_directories(watch_controls PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(watch.controls quick 60 watch_controls)
vmag_test_program(watch_traced watch/traced.c LIBRARIES vmag)
target_include_directories(watch_traced PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(watch.trace quick 120 ${PYTHON} ${WATCH}/trace.py ${CMAKE_BINARY_DIR}/bin/vmag $<TARGET_FILE:vmag>
          $<TARGET_FILE:watch_sites> $<TARGET_FILE:watch_everything> $<TARGET_FILE:watch_traced>)
vmag_test(watch.report slow 180 ${PYTHON} ${WATCH}/report.py ${CMAKE_BINARY_DIR}/bin/vmag $<TARGET_FILE:vmag> $<TARGET_FILE:watch_sites>)
vmag_test(watch.probes quick 120 ${PYTHON} ${WATCH}/probes.py $<TARGET_FILE:vmag> $<TARGET_FILE:watch_sites>)
vmag_test_program(watch_pairs watch/pairs.c LIBRARIES vmag)
vmag_test(watch.cost slow 120 ${PYTHON} ${WATCH}/cost.py $<TARGET_FILE:watch_pairs>)
