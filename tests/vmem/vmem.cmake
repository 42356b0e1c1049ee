# vmem.*: arenas as programs use them, through <vmag/vmem.h> and the shared library.
# SPDX-License-Identifier: BSD-2-Clause

foreach(program interface waiting threads misuse quantum constant taken_back)
  vmag_test_program(vmem_${program} vmem/${program}.c LIBRARIES vmag)
  vmag_test(vmem.${program} quick 60 vmem_${program})
endforeach()

# The examples are built and run, and what they print is compared.
if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  set(argument_of_ranges ${CMAKE_CURRENT_BINARY_DIR}/ranges.store)
  foreach(example ports ranges)
    vmag_test_program(example_${example} ${CMAKE_SOURCE_DIR}/examples/${example}.c LIBRARIES vmag)
    vmag_test(vmem.example_${example} quick 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/vmem/example.py
              $<TARGET_FILE:example_${example}> ${CMAKE_CURRENT_SOURCE_DIR}/vmem/examples/${example}.in
              ${CMAKE_CURRENT_SOURCE_DIR}/vmem/examples/${example}.out ${argument_of_${example}})
  endforeach()
endif()

# The n-th memory system call fails, for all n.
if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  vmag_test_program(vmem_inject vmem/inject.c LIBRARIES vmag)
  vmag_test(vmem.nth_call slow 120 nomem_inject $<TARGET_FILE:vmem_inject>)
  vmag_test(vmem.nth_call_onward slow 120 nomem_inject --onward $<TARGET_FILE:vmem_inject>)
endif()
