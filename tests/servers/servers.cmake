# servers.*: real servers from the distribution on the library, preloaded or in the place of libjemalloc.so.2, under load;
# programs that look for jemalloc. Each proves which allocator ran.
# SPDX-License-Identifier: BSD-2-Clause

foreach(name nginx mariadb postgres varnish)
  vmag_test(servers.${name}.preload slow 150 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/servers/${name}.py $<TARGET_FILE:vmag> preload)
endforeach()
