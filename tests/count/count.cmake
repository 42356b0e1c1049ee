# count.*: the counting build, and the bars on atomic operations.
# SPDX-License-Identifier: BSD-2-Clause

if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND NOT CMAKE_CROSSCOMPILING)
  vmag_test(count.bars slow 300 ${PYTHON} ${CMAKE_SOURCE_DIR}/bench/counts.py --check --scale 0.5 --build ${CMAKE_BINARY_DIR}/count)
endif()
vmag_test(count.model quick 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/count/model.py ${CMAKE_SOURCE_DIR}/bench)
