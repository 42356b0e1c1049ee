# One object in place of the many of a static library: `cmake -DARCHIVE=… -DOBJECTS=… -DOBJECT=… -DCOMPILER=… -DLINKER=… -DOBJCOPY=… -DAR=… -DRANLIB=… -P join.cmake`.
# A program's own functions may then be called like ours inside, and like those of jemalloc and libumem and those that C17 does not know, which it
# has in place of ours.
# SPDX-License-Identifier: BSD-2-Clause

# By the linker itself where it can, for flags that are for programs (-static-pie, --gc-sections) are not for this; else by the compiler. GNU's lays it out by
# our lists, which name files: OBJECTS has them, a line each, where the lists serve (layout/layout.cmake).
set(laid_out ${LINKER} -r -L ${CMAKE_CURRENT_LIST_DIR} -T ${CMAKE_CURRENT_LIST_DIR}/archive.ld @${OBJECTS})
set(by_linker ${LINKER} -r --whole-archive ${ARCHIVE})
set(by_compiler ${COMPILER} -fno-lto -nostdlib -r -Wl,--whole-archive ${ARCHIVE})
set(ways by_linker by_compiler)
if(OBJECTS)
  list(PREPEND ways laid_out)
endif()
foreach(join IN LISTS ways)
  execute_process(COMMAND ${${join}} -o ${OBJECT} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE why)
  if(failed EQUAL 0)
    execute_process(COMMAND ${OBJCOPY} --localize-hidden --wildcard --weaken-symbol=umem_* --weaken-symbol=vmem_* --weaken-symbol=mallctl*
      --weaken-symbol=*allocx --weaken-symbol=*allocm --weaken-symbol=malloc_message --weaken-symbol=malloc_stats_print
      --weaken-symbol=reallocarray --weaken-symbol=free_sized --weaken-symbol=free_aligned_sized --weaken-symbol=pvalloc --weaken-symbol=mallinfo
      --weaken-symbol=mallinfo2 --weaken-symbol=mallopt --weaken-symbol=malloc_trim --weaken-symbol=malloc_stats --weaken-symbol=malloc_info ${OBJECT}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE why)
  endif()
  # Global stay two sections' names, of which a program has one, from whatever object.
  if(failed EQUAL 0)
    execute_process(COMMAND ${OBJCOPY} --wildcard --globalize-symbol=DW.ref.* --globalize-symbol=_.stapsdt.base ${OBJECT}
      RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE why)
  endif()
  if(failed EQUAL 0)
    break()
  endif()
endforeach()
if(NOT failed EQUAL 0)
  message(WARNING "One object could not be made of ${ARCHIVE}: its inner names can be those of a program's own functions, "
    "and those of jemalloc and libumem, reallocarray and the like are not weak.\n${why}")
  return()
endif()
file(REMOVE ${ARCHIVE})
execute_process(COMMAND ${AR} qc ${ARCHIVE} ${OBJECT} COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${RANLIB} ${ARCHIVE} COMMAND_ERROR_IS_FATAL ANY)
