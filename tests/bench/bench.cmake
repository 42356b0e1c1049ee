# bench.*: the runners of bench/ do what they say, on the smallest of work.
# SPDX-License-Identifier: BSD-2-Clause

vmag_test(bench.experiments slow 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench/experiments.py $<TARGET_FILE:vmag>)
vmag_test(bench.figures quick 20 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench/figures.py)
vmag_test(bench.sessions quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench/sessions.py)
