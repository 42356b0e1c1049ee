# servers.*: real servers from the distribution on the library, preloaded or in the place of libjemalloc.so.2, under load;
# programs that look for jemalloc. Each proves which allocator ran.
# SPDX-License-Identifier: BSD-2-Clause

set(SERVERS ${CMAKE_CURRENT_SOURCE_DIR}/servers)
foreach(name nginx apache squid mariadb postgres varnish named redis)
  vmag_test(servers.${name}.preload slow 150 ${PYTHON} ${SERVERS}/${name}.py $<TARGET_FILE:vmag> preload)
endforeach()
# These are linked with libjemalloc.so.2 in Debian.
foreach(name varnish named redis nghttp2 clickhouse)
  vmag_test(servers.${name}.alias slow 150 ${PYTHON} ${SERVERS}/${name}.py $<TARGET_FILE:vmag> alias)
endforeach()

# One at a time takes ports: nobody else takes them between the moment they are found free and the server's start.
foreach(name nginx.preload apache.preload squid.preload varnish.preload varnish.alias named.preload named.alias nghttp2.alias clickhouse.alias)
  set_tests_properties(servers.${name} PROPERTIES RESOURCE_LOCK ports)
endforeach()

vmag_test(servers.rust slow 300 ${PYTHON} ${SERVERS}/rust.py $<TARGET_FILE:vmag> ${SERVERS}/rust ${CMAKE_BINARY_DIR}/rust-program)

if(VMAG_TESTS_CXX)
  vmag_test_program(servers_detect servers/detect.cpp LIBRARIES vmag)
  vmag_test_program(servers_detect_preloaded servers/detect.cpp)
  vmag_test(servers.detect quick 60 servers_detect)
  vmag_test(servers.detect.preloaded quick 60 servers_detect_preloaded)
  set_tests_properties(servers.detect.preloaded PROPERTIES ENVIRONMENT "LD_PRELOAD=$<TARGET_FILE:vmag>")
endif()
