# jemalloc.*: the interface of jemalloc 5 from outside: functions, arenas, caches, hooks, the name of its library.
# SPDX-License-Identifier: BSD-2-Clause

foreach(name functions allocm special_arenas sampled defragment patterns hooks_allocate)
  vmag_test_program(jemalloc_${name}_shared jemalloc/${name}.c LIBRARIES vmag)
  vmag_test_program(jemalloc_${name}_static jemalloc/${name}.c LIBRARIES vmag_static)
  vmag_test(jemalloc.${name}.shared quick 60 jemalloc_${name}_shared)
  vmag_test(jemalloc.${name}.static quick 60 jemalloc_${name}_static)
endforeach()

foreach(kind "sampled;prof:true,lg_prof_sample:12" "cpu;front:cpu" "counted;stats_interval:100000000000" "no_cache;tcache:false")
  list(POP_FRONT kind name)
  vmag_test(jemalloc.hooks_allocate.${name} quick 60 jemalloc_hooks_allocate_shared)
  set_tests_properties(jemalloc.hooks_allocate.${name} PROPERTIES ENVIRONMENT "MALLOC_CONF=${kind}")
endforeach()

vmag_test_program(jemalloc_hooks_refuse jemalloc/hooks_refuse.c LIBRARIES vmag)
vmag_test(jemalloc.hooks_refuse quick 30 jemalloc_hooks_refuse)

# The option heap_source: what threads allocate lies where it says.
vmag_test_program(jemalloc_heap_source jemalloc/heap_source.c LIBRARIES vmag)
function(vmag_heap_source name kind source)
  vmag_test(jemalloc.heap_source.${name} quick 60 jemalloc_heap_source ${kind})
  set_tests_properties(jemalloc.heap_source.${name} PROPERTIES ENVIRONMENT "MALLOC_CONF=heap_source:${source}")
endfunction()
vmag_heap_source(file file file=${CMAKE_CURRENT_BINARY_DIR}/heap_source.heap)
vmag_heap_source(memory_file file memory_file=heap)
vmag_heap_source(huge other huge)
vmag_heap_source(node other node=0)
vmag_heap_source(no_such_file none file=/no/such/place)
vmag_heap_source(device none file=/dev/null)
vmag_test(jemalloc.heap_source.told quick 30 sh -c "$<TARGET_FILE:jemalloc_heap_source> none 2>&1 | grep -F 'vmag: heap_source:hug: there are huge, '")
set_tests_properties(jemalloc.heap_source.told PROPERTIES ENVIRONMENT "MALLOC_CONF=heap_source:hug")

vmag_test_program(jemalloc_hostile jemalloc/hostile.c LIBRARIES vmag)
target_compile_options(jemalloc_hostile PRIVATE $<$<C_COMPILER_ID:GNU>:-Wno-use-after-free>)
if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  foreach(crime arena cache free_cache size size_none size_align size_large double double_large inside foreign overrun overrun_resized)
    vmag_test(jemalloc.hostile.${crime} quick 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/misuse/expect_report.py
              $<TARGET_FILE:jemalloc_hostile> ${crime})
  endforeach()
  set_tests_properties(jemalloc.hostile.overrun jemalloc.hostile.overrun_resized PROPERTIES ENVIRONMENT "MALLOC_CONF=prof:true,lg_prof_sample:0")
endif()

# Linked with Debian's libjemalloc.so.2 where its development package is there, run on ours.
find_library(JEMALLOC_LIBRARY NAMES libjemalloc.so libjemalloc.so.2)
if(JEMALLOC_LIBRARY)
  vmag_test_program(jemalloc_alias jemalloc/alias.c LIBRARIES ${JEMALLOC_LIBRARY})
  target_include_directories(jemalloc_alias PRIVATE ${CMAKE_SOURCE_DIR}/include)
  set_target_properties(jemalloc_alias PROPERTIES SKIP_BUILD_RPATH ON)
  vmag_test(jemalloc.alias quick 30 jemalloc_alias)
  set_tests_properties(jemalloc.alias PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_LIBRARY_OUTPUT_DIRECTORY}")
endif()

# jemalloc's own tests, as far as they need no more than the public interface.
if(PYTHON AND NOT CMAKE_CROSSCOMPILING)
  vmag_test(jemalloc.own slow 200 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/jemalloc/own.py $<TARGET_FILE:vmag> ${CMAKE_SOURCE_DIR}/include
            ${CMAKE_BINARY_DIR}/own)
endif()

vmag_test_program(jemalloc_mixed jemalloc/mixed.c LIBRARIES vmag)
vmag_test(jemalloc.mixed.thread quick 60 jemalloc_mixed)
vmag_test(jemalloc.mixed.cpu quick 60 jemalloc_mixed)
set_tests_properties(jemalloc.mixed.cpu PROPERTIES ENVIRONMENT "MALLOC_CONF=front:cpu")
vmag_test(jemalloc.mixed.guards quick 60 jemalloc_mixed guarded)
set_tests_properties(jemalloc.mixed.guards PROPERTIES ENVIRONMENT "UMEM_DEBUG=guards")

# Guarded, one with a mapping of its own and one whose end is amid a page; and what hooks gave.
vmag_test_program(jemalloc_zero jemalloc/zero.c LIBRARIES vmag)
vmag_test(jemalloc.zero.firewall quick 60 jemalloc_zero guarded 268435456)
set_tests_properties(jemalloc.zero.firewall PROPERTIES ENVIRONMENT "UMEM_DEBUG=firewall=1")
vmag_test(jemalloc.zero.guards quick 60 jemalloc_zero guarded 268435556)
set_tests_properties(jemalloc.zero.guards PROPERTIES ENVIRONMENT "UMEM_DEBUG=guards")
vmag_test(jemalloc.zero.hooks quick 60 jemalloc_zero hooks)

vmag_test_program(jemalloc_refused jemalloc/refused.c LIBRARIES vmag)
vmag_test(jemalloc.refused quick 60 jemalloc_refused)
