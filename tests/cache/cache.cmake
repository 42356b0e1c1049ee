# cache.*: object caches as a program sees them, against the shared library: a program each.
# SPDX-License-Identifier: BSD-2-Clause

# vmag_cache_test(NAME SECONDS)
function(vmag_cache_test name seconds)
  vmag_test_program(cache_${name} cache/${name}.c LIBRARIES vmag)
  target_link_options(cache_${name} PRIVATE -Wl,--no-as-needed)
  target_include_directories(cache_${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/unit)
  vmag_test(cache.${name} quick ${seconds} cache_${name})
endfunction()

vmag_cache_test(create 20)
vmag_cache_test(model 60)
vmag_cache_test(threads 60)
vmag_cache_test(forks 60)
vmag_cache_test(shortage 30)
vmag_cache_test(resources 60)
vmag_cache_test(move 60)
