# vmem.*: arenas as programs use them, through <vmag/vmem.h> and the shared library.
# SPDX-License-Identifier: BSD-2-Clause

foreach(program interface waiting threads misuse quantum constant)
  vmag_test_program(vmem_${program} vmem/${program}.c LIBRARIES vmag)
  vmag_test(vmem.${program} quick 60 vmem_${program})
endforeach()
