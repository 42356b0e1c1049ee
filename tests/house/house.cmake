# house.*: rules of the house that are tests: exported symbols, first lines, floors, public headers, links, code in documents, and the golden fast path.
# SPDX-License-Identifier: BSD-2-Clause

set(HOUSE ${CMAKE_CURRENT_SOURCE_DIR}/house)
vmag_test(house.symbols quick 30 ${PYTHON} ${HOUSE}/symbols.py $<TARGET_FILE:vmag> ${HOUSE}/exported-symbols.txt
          $<$<BOOL:${CMAKE_OBJCOPY}>:$<TARGET_FILE:vmag_static>>)
vmag_test(house.first_lines quick 30 ${PYTHON} ${HOUSE}/first_lines.py ${CMAKE_SOURCE_DIR})
vmag_test(house.floors quick 30 ${PYTHON} ${HOUSE}/floors.py ${CMAKE_SOURCE_DIR})
vmag_test(house.headers quick 60 ${PYTHON} ${HOUSE}/headers.py ${CMAKE_SOURCE_DIR}/include)
vmag_test(house.links quick 30 ${PYTHON} ${HOUSE}/links.py ${CMAKE_SOURCE_DIR})
vmag_test(house.checklist quick 30 ${PYTHON} ${HOUSE}/checklist.py ${CMAKE_SOURCE_DIR}/docs/checklist-2001.md ${CMAKE_BINARY_DIR})
vmag_test(house.manual_vmem quick 30 ${PYTHON} ${HOUSE}/manual.py ${CMAKE_SOURCE_DIR}/include/vmag/vmem.h ${CMAKE_SOURCE_DIR}/man/vmem.3)
foreach(document docs/object-caches.md man/vmem.3)
  get_filename_component(name ${document} NAME_WE)
  vmag_test(house.snippets.${name} quick 30 ${PYTHON} ${HOUSE}/snippets.py ${CMAKE_SOURCE_DIR}/${document} ${CMAKE_SOURCE_DIR}/include
            ${CMAKE_C_COMPILER})
endforeach()

# Only an ordinary build has the fast path that the golden file describes.
if(NOT VMAG_DEBUG AND NOT VMAG_UBSAN AND CMAKE_BUILD_TYPE STREQUAL "Release")
  vmag_test_program(house_fast_path house/fast_path.c LIBRARIES vmag)
  target_link_options(house_fast_path PRIVATE -Wl,--no-as-needed)
  vmag_test(house.fast_path slow 120 ${PYTHON} ${HOUSE}/fast_path.py $<TARGET_FILE:house_fast_path> $<TARGET_FILE:vmag>
            ${HOUSE}/fast_path.golden)
  vmag_test_program(house_misses house/misses.c LIBRARIES vmag)
  vmag_test(house.misses slow 60 ${PYTHON} ${HOUSE}/misses.py $<TARGET_FILE:house_misses>)
endif()
