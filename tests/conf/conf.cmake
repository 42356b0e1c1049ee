# conf.*: where options come from, as a program sees it.
# SPDX-License-Identifier: BSD-2-Clause
vmag_test_program(conf_sources conf/sources.c LIBRARIES vmag)
vmag_test_program(conf_sources_strings conf/sources.c LIBRARIES vmag)
vmag_test_program(conf_sources_static conf/sources.c LIBRARIES vmag_static)
target_compile_definitions(conf_sources_strings PRIVATE WITH_STRINGS)
target_compile_definitions(conf_sources_static PRIVATE WITH_STRINGS)
vmag_test(conf.sources.shared quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/conf/sources.py
          $<TARGET_FILE:conf_sources> $<TARGET_FILE:conf_sources_strings>)
vmag_test(conf.sources.static quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/conf/sources.py
          $<TARGET_FILE:conf_sources> $<TARGET_FILE:conf_sources_static>)

vmag_test_program(conf_effects conf/effects.c LIBRARIES vmag)
target_include_directories(conf_effects PRIVATE ${CMAKE_SOURCE_DIR}/include)
# vmag_effect(NAME ENVIRONMENT [FAILURE]): the option does what it says; FAILURE: it ends the process with that line.
function(vmag_effect name environment)
  if(ARGN) # a shell in between, for an abort is a failure to ctest whatever was printed
    vmag_test(conf.effect.${name} quick 30 sh -c "$<TARGET_FILE:conf_effects> ${name} 2>&1 | grep -F '${ARGN}'")
  else()
    vmag_test(conf.effect.${name} quick 30 conf_effects ${name})
  endif()
  set_tests_properties(conf.effect.${name} PROPERTIES ENVIRONMENT "${environment}")
endfunction()
vmag_effect(junk "MALLOC_OPTIONS=J")
vmag_effect(zero "MALLOC_CONF=zero:true")
vmag_effect(xmalloc "MALLOC_CONF=xmalloc:true" "vmag: malloc: no memory, and the option xmalloc is set")
vmag_effect(xmalloc_mallocx "MALLOC_CONF=xmalloc:true" "vmag: malloc: no memory, and the option xmalloc is set")
vmag_effect(xmalloc_rallocx "MALLOC_CONF=xmalloc:true" "vmag: malloc: no memory, and the option xmalloc is set")
vmag_effect(tcache_of_a_thread "MALLOC_CONF=tcache:false")
vmag_effect(source "MALLOC_CONF=narenas:2")
vmag_effect(infallible_new "MALLOC_CONF=experimental_infallible_new:true" "no memory for 4611686018427387903 bytes, and the option experimental_infallible_new is set")
vmag_effect(zero_realloc_abort "MALLOC_CONF=zero_realloc:abort" "size 0, and the option zero_realloc is abort")
vmag_effect(zero_realloc_alloc "MALLOC_CONF=zero_realloc:alloc")
vmag_effect(zero_size_null "MALLOC_OPTIONS=V")
vmag_effect(tcache_max "MALLOC_CONF=tcache_max:1024")
vmag_effect(interval "MALLOC_CONF=stats_interval:1048576,stats_interval_opts:J")

# prof_leak_error: the process fails when something is alive at its end. Alone it does what prof and prof_leak do, too.
foreach(kind "leak;prof:true,prof_leak:true," "leak_error;")
  list(POP_FRONT kind name)
  vmag_test(conf.effect.${name} quick 30 sh -c "! $<TARGET_FILE:conf_effects> leak")
  set_tests_properties(conf.effect.${name} PROPERTIES ENVIRONMENT "MALLOC_CONF=${kind}prof_leak_error:true,lg_prof_sample:0")
endforeach()

# Every option of jemalloc 5.3.0 with many values, where Debian's library is there: refused, taken and told alike, but for what docs/jemalloc.md says.
if(JEMALLOC_LIBRARY)
  vmag_test_program(conf_peer conf/peer.c)
  vmag_test(conf.peer quick 60 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/conf/peer.py $<TARGET_FILE:conf_peer> $<TARGET_FILE:vmag> ${JEMALLOC_LIBRARY}
            ${CMAKE_CURRENT_SOURCE_DIR}/ctl/names.tsv)
endif()
