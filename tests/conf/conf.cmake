# conf.*: where options come from, as a program sees it.
# SPDX-License-Identifier: BSD-2-Clause
vmag_test_program(conf_sources conf/sources.c LIBRARIES vmag)
vmag_test_program(conf_sources_strings conf/sources.c LIBRARIES vmag)
vmag_test_program(conf_sources_static conf/sources.c LIBRARIES vmag_static)
target_compile_definitions(conf_sources_strings PRIVATE WITH_STRINGS)
target_compile_definitions(conf_sources_static PRIVATE WITH_STRINGS)
vmag_test(conf.sources.shared quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/conf/sources.py
          $<TARGET_FILE:conf_sources> $<TARGET_FILE:conf_sources_strings>)
vmag_test(conf.sources.static quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/conf/sources.py
          $<TARGET_FILE:conf_sources> $<TARGET_FILE:conf_sources_static>)
