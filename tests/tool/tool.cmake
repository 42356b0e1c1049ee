# tool.*: the vmag command on processes that run: which allocator they have, what pins slabs, metrics, the live view.
# SPDX-License-Identifier: BSD-2-Clause

set(TOOL ${CMAKE_CURRENT_SOURCE_DIR}/tool)
set(VMAG_COMMAND ${CMAKE_BINARY_DIR}/bin/vmag)
vmag_test_program(tool_patient tool/patient.c)
vmag_test_program(tool_patient_linked tool/patient.c LIBRARIES vmag)
vmag_test_program(tool_patient_static_vmag tool/patient.c LIBRARIES vmag_static)
vmag_test_program(tool_patient_static tool/patient.c)
target_link_options(tool_patient_linked PRIVATE -Wl,--no-as-needed)
target_compile_definitions(tool_patient_static PRIVATE PATIENT_STATIC)
target_link_options(tool_patient_static PRIVATE -static)
foreach(kind own hidden)
  add_library(tool_patient_${kind} SHARED tool/patient_${kind}.c)
  target_compile_options(tool_patient_${kind} PRIVATE ${TEST_C_FLAGS})
  target_link_options(tool_patient_${kind} PRIVATE -Wl,-Bsymbolic)
  set_target_properties(tool_patient_${kind} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endforeach()
# Linked with a libumem.so.1 of another, after the C library's libm.
add_library(tool_patient_other_umem SHARED tool/patient_own.c)
set_target_properties(tool_patient_other_umem PROPERTIES OUTPUT_NAME umem SOVERSION 1
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/tool_other_umem)
vmag_test_program(tool_patient_umem tool/patient.c LIBRARIES m tool_patient_other_umem)
target_link_options(tool_patient_umem PRIVATE -Wl,--no-as-needed)
set_target_properties(tool_patient_umem PROPERTIES SKIP_BUILD_RPATH ON)
vmag_test(tool.doctor quick 60 ${PYTHON} ${TOOL}/doctor.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> ${CMAKE_CURRENT_BINARY_DIR})

vmag_test_program(tool_holder tool/holder.c)
vmag_test(tool.serve quick 180 ${PYTHON} ${TOOL}/serve.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.parca quick 120 ${PYTHON} ${TOOL}/parca.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder> ${CMAKE_BINARY_DIR}/parca/parca)
vmag_test(tool.top quick 180 ${PYTHON} ${TOOL}/top.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.frag quick 120 ${PYTHON} ${TOOL}/frag.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.bundle quick 120 ${PYTHON} ${TOOL}/bundle.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.sites quick 120 ${PYTHON} ${TOOL}/sites.py ${VMAG_COMMAND} $<TARGET_FILE:vmag>)
vmag_test(tool.caches quick 60 ${PYTHON} ${TOOL}/caches.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>
  ${CMAKE_SOURCE_DIR}/include/vmag/format.h)
vmag_test(tool.map quick 60 ${PYTHON} ${TOOL}/map.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.examples quick 240 ${PYTHON} ${TOOL}/examples.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.static quick 60 ${PYTHON} ${TOOL}/static.py ${VMAG_COMMAND} $<TARGET_FILE:vmag> $<TARGET_FILE:tool_holder>)
vmag_test(tool.manual quick 60 ${PYTHON} ${TOOL}/manual.py ${VMAG_COMMAND})

vmag_test_program(tool_entries tool/entries.c LIBRARIES vmag_static)
target_include_directories(tool_entries PRIVATE ${CMAKE_SOURCE_DIR}/include)
vmag_test(tool.entries quick 60 ${PYTHON} ${TOOL}/entries.py ${VMAG_COMMAND} $<TARGET_FILE:tool_entries>)

vmag_test_program(tool_torn tool/torn.c LIBRARIES vmag)
target_link_options(tool_torn PRIVATE -Wl,--no-as-needed)
vmag_test(tool.torn quick 240 ${PYTHON} ${TOOL}/torn.py ${VMAG_COMMAND} $<TARGET_FILE:tool_torn>)
