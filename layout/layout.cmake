# How the shared library is laid out: what every program runs through, reads and writes lies together. The linker's own script,
# with our lists put before its patterns; other linkers than GNU's lay the library out as they like.
# SPDX-License-Identifier: BSD-2-Clause
include(CheckLinkerFlag)
include(CheckSymbolExists)
set(LAYOUT ${CMAKE_CURRENT_LIST_DIR})
set(LAYOUT_SCRIPT ${PROJECT_BINARY_DIR}/layout.ld)

# Tables, code and constants as the file has them. Two loadable pieces: the loader reads the first
# before anything runs, and the kernel maps along what follows in the same mapping. Addresses with a gap make the linker begin the second.
# musl's loader leaves the file mapped in the gap, whose pages are then mapped along: there it is one piece. One hash table, where wrappers ask for two.
set(LAYOUT_OPTIONS -Wl,-z,noseparate-code -Wl,--hash-style=gnu)
check_symbol_exists(__GLIBC__ features.h VMAG_GLIBC)
set(gap "")
if(VMAG_GLIBC)
  set(gap " . = ALIGN(0x1000) + 0x20000;\n ")
endif()
get_target_property(options vmag LINK_OPTIONS)
list(APPEND options ${LAYOUT_OPTIONS})
separate_arguments(flags UNIX_COMMAND "${CMAKE_SHARED_LINKER_FLAGS}") # which name the linker
execute_process(COMMAND ${VMAG_LINKER_CALL} ${flags} -shared ${options} -Wl,--verbose -o ${PROJECT_BINARY_DIR}/CMakeFiles/layout
  OUTPUT_VARIABLE script ERROR_QUIET)
string(REGEX MATCH "^GNU ld " is_gnu "${script}")
string(REGEX REPLACE "^.*======\n(.*)\n======.*$" "\\1" script "${script}")
string(REGEX REPLACE "\n  \\.text +:\n  {" "\n  .init.first : { INCLUDE \"${LAYOUT}/init.ld\" }\n ${gap} .rodata.first : { INCLUDE \"${LAYOUT}/rodata.ld\" }\n  .text :\n  {\n INCLUDE \"${LAYOUT}/text.ld\"" script "${script}")
# Where the lists found nothing, as with objects by other names, no stretch of the text is set apart (src/os/layout_linux.c).
string(REPLACE "\n  PROVIDE (__etext = .);" "\n  HIDDEN(layout_end = layout_soon < layout_larger ? . : layout_seldom);\n  PROVIDE (__etext = .);" script "${script}")
string(REPLACE "{ *(.rodata .rodata.* " "{ EXCLUDE_FILE (*/heap/size_class.c.o) *(.rodata .rodata.* " script "${script}")
string(REGEX REPLACE "\n  \\.data\\.rel\\.ro : {" "\n  .data.rel.ro : { INCLUDE \"${LAYOUT}/relro.ld\"\n" script "${script}")
string(REGEX REPLACE "\n  \\.bss +:\n  {" "\n  .bss :\n  {\n INCLUDE \"${LAYOUT}/bss.ld\"" script "${script}")
set(before)
if(EXISTS ${LAYOUT_SCRIPT})
  file(READ ${LAYOUT_SCRIPT} before)
endif()
if(NOT before STREQUAL script) # else each call of make would link anew
  file(WRITE ${LAYOUT_SCRIPT} "${script}")
endif()
set(VMAG_LAYOUT OFF) # and why
if(NOT is_gnu)
  set(reason "its linker is not GNU ld")
elseif(NOT script MATCHES "init.ld.*rodata.ld.*text.ld.*layout_end.*EXCLUDE_FILE .*relro.ld.*bss.ld")
  set(reason "the script of this GNU ld is not the one we know")
else()
  set(reason "the linker does not take ${LAYOUT_SCRIPT}")
  list(APPEND LAYOUT_OPTIONS "-Wl,-T,${LAYOUT_SCRIPT}")
  unset(VMAG_LAYOUT)
  check_linker_flag(C "${flags};${LAYOUT_OPTIONS}" VMAG_LAYOUT)
endif()
if(VMAG_LAYOUT)
  target_link_options(vmag PRIVATE ${LAYOUT_OPTIONS})
  target_sources(vmag PRIVATE src/os/layout_linux.c)
  set_source_files_properties(src/os/layout_linux.c PROPERTIES COMPILE_OPTIONS "-Os;-Wall;-Wextra;$<$<C_COMPILER_ID:GNU>:-Wno-prio-ctor-dtor>;-fvisibility=hidden;-ffunction-sections")
  set_target_properties(vmag PROPERTIES LINK_DEPENDS "${LAYOUT_SCRIPT};${LAYOUT}/init.ld;${LAYOUT}/text.ld;${LAYOUT}/rodata.ld;${LAYOUT}/relro.ld;${LAYOUT}/bss.ld")
else()
  message(STATUS "The library is not laid out: ${reason}")
endif()
