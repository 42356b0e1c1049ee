# ctl.*: jemalloc's controls and its report.
# SPDX-License-Identifier: BSD-2-Clause
foreach(kind shared static)
  vmag_test_program(ctl_values_${kind} ctl/values.c ctl/values_statistics.c ctl/values_made.c ctl/values_profiler.c LIBRARIES vmag$<$<STREQUAL:${kind},static>:_static>)
  target_include_directories(ctl_values_${kind} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  vmag_test(ctl.values.${kind} quick 60 ctl_values_${kind})
endforeach()

vmag_test_program(ctl_read_meanwhile ctl/read_meanwhile.c LIBRARIES vmag)
target_include_directories(ctl_read_meanwhile PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.read_meanwhile quick 60 ctl_read_meanwhile)
vmag_test_program(ctl_in_handler ctl/in_handler.c LIBRARIES vmag)
vmag_test(ctl.in_handler quick 30 ctl_in_handler)
vmag_test_program(ctl_stops_nobody ctl/stops_nobody.c LIBRARIES vmag)
target_include_directories(ctl_stops_nobody PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.stops_nobody quick 60 ctl_stops_nobody)

vmag_test_program(ctl_uncounted ctl/uncounted.c LIBRARIES vmag)
target_include_directories(ctl_uncounted PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.uncounted quick 30 ctl_uncounted)

vmag_test_program(ctl_sampled ctl/sampled.c LIBRARIES vmag)
target_include_directories(ctl_sampled PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.sampled quick 30 ctl_sampled)

vmag_test_program(ctl_report ctl/report.c LIBRARIES vmag)
target_include_directories(ctl_report PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(ctl.report quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ctl/report.py $<TARGET_FILE:ctl_report>)

vmag_test_program(ctl_cost ${CMAKE_SOURCE_DIR}/bench/statistics.c)
vmag_test(ctl.cost slow 300 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ctl/cost.py $<TARGET_FILE:ctl_cost> $<TARGET_FILE:vmag>)
set_tests_properties(ctl.cost PROPERTIES RUN_SERIAL TRUE) # it measures time

vmag_test_program(ctl_counters ctl/counters.c)
vmag_test(ctl.counters slow 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ctl/counters.py $<TARGET_FILE:ctl_counters> $<TARGET_FILE:vmag>)
# They count, too, where fronts of processors serve.
foreach(way pair medium held calloc realloc mallocx)
  vmag_test(ctl.counters_of_processors.${way} quick 30 ctl_counters 100000 ${way} counted)
  set_tests_properties(ctl.counters_of_processors.${way} PROPERTIES ENVIRONMENT "VMAG_CONF=front:cpu;LD_PRELOAD=$<TARGET_FILE:vmag>")
endforeach()

vmag_test(ctl.documents quick 30 ${PYTHON} ${CMAKE_SOURCE_DIR}/man/generate.py $<TARGET_FILE:vmag> --check)

vmag_test(ctl.names quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/ctl/names.py $<TARGET_FILE:vmag>
          ${CMAKE_CURRENT_SOURCE_DIR}/ctl/names.tsv $<TARGET_FILE:ctl_values_shared>)
set_tests_properties(ctl.names PROPERTIES ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:vmag>;MALLOC_CONF=lg_tcache_max:16")
