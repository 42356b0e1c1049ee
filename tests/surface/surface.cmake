# surface.*: the whole malloc family and the C++ operators, each source linked once to the shared and once to the static library.
# SPDX-License-Identifier: BSD-2-Clause

set(SURFACE_C allocate calloc realloc aligned sized_free usable_size errors trim information origin)
set(SURFACE_CXX operators operators_replaced new_failure)

function(vmag_surface_test name source)
  vmag_test_program(surface_${name}_shared surface/${source} LIBRARIES vmag)
  vmag_test_program(surface_${name}_static surface/${source} LIBRARIES vmag_static)
  target_compile_definitions(surface_${name}_shared PRIVATE EXPECTED_HOME="libvmag.so")
  target_compile_definitions(surface_${name}_static PRIVATE EXPECTED_HOME="surface_${name}_static")
  set_target_properties(surface_${name}_static PROPERTIES ENABLE_EXPORTS ON)
  vmag_test(surface.${name}.shared quick 120 surface_${name}_shared)
  vmag_test(surface.${name}.static quick 120 surface_${name}_static)
endfunction()

foreach(name IN LISTS SURFACE_C)
  vmag_surface_test(${name} ${name}.c)
endforeach()

if(VMAG_TESTS_CXX)
  foreach(name IN LISTS SURFACE_CXX)
    vmag_surface_test(${name} ${name}.cpp)
  endforeach()
  foreach(variant shared static) # that it has no sized delete is what it is about
    target_compile_options(surface_operators_replaced_${variant} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-sized-deallocation>)
  endforeach()
  foreach(debug lite default) # operator new gives no NULL for 0 bytes, and takes back what it gave
    vmag_test(surface.operators.guarded.${debug} quick 30 surface_operators_shared)
    set_tests_properties(surface.operators.guarded.${debug} PROPERTIES ENVIRONMENT "UMEM_DEBUG=${debug};VMAG_CONF=zero_size_null:true")
  endforeach()
  vmag_test_program(surface_operators_origin surface/operators_origin.cpp LIBRARIES vmag)
  target_compile_definitions(surface_operators_origin PRIVATE EXPECTED_HOME="libvmag.so")
  vmag_test(surface.operators_origin quick 30 surface_operators_origin)
  if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
    vmag_test_program(surface_memcheck surface/memcheck.cpp LIBRARIES vmag)
    vmag_test(surface.memcheck quick 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/surface/memcheck.py $<TARGET_FILE:surface_memcheck>)
  endif()
endif()

if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  vmag_test_program(surface_malloc_info surface/malloc_info.c LIBRARIES vmag)
  vmag_test(surface.malloc_info quick 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/surface/malloc_info.py
            $<TARGET_FILE:surface_malloc_info>)
endif()
