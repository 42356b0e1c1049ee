# real.*: programs that everyone has, run on the C library's malloc and with the library preloaded; outputs must be the same.
# SPDX-License-Identifier: BSD-2-Clause

foreach(name bash perl python git compilers sqlite redis archives cmake node java php)
  vmag_test(real.${name} slow 240 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/real/compare.py $<TARGET_FILE:vmag>
            ${CMAKE_CURRENT_SOURCE_DIR}/real/${name}.sh)
endforeach()

set(PYTHON_TESTS test_json test_re test_dict test_list test_set test_threading test_thread test_ast test_pickle test_zlib test_sqlite3
    test_fork1 test_subprocess test_gc test_ctypes test_struct test_bytes test_unicode test_io test_array test_decimal test_queue)
set(PYTHON_TESTS_MALLOC test_json test_re test_dict test_list test_ast test_threading test_struct test_zlib test_fork1 test_weakref)
vmag_test(real.python_tests slow 300 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/real/python_tests.py $<TARGET_FILE:vmag> default ${PYTHON_TESTS})
vmag_test(real.python_tests_malloc slow 300 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/real/python_tests.py $<TARGET_FILE:vmag> malloc
          ${PYTHON_TESTS_MALLOC})
