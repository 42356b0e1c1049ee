# stress.*: random calls with verified contents, 1 to 64 threads, each a few seconds; every run takes a new seed and prints it. And sizes that drift, and that take turns, and holes while huge pages are dear.
# SPDX-License-Identifier: BSD-2-Clause

vmag_test_program(stress stress/stress.c LIBRARIES vmag)
if(CMAKE_CROSSCOMPILING_EMULATOR)
  set(emulator --emulator 300) # qemu-aarch64 7.2, with the C library alone: 280
endif()
foreach(threads 1 2 8 64)
  foreach(profile small mixed large)
    vmag_test(stress.${profile}.${threads} slow 90 stress --threads ${threads} --seconds 5 --profile ${profile} ${emulator})
  endforeach()
endforeach()

# Threads apart: what one frees of another's goes home.
vmag_test(stress.apart slow 90 stress --threads 8 --seconds 5 --profile mixed)
set_tests_properties(stress.apart PROPERTIES ENVIRONMENT "VMAG_CONF=narenas:8")

vmag_test_program(stress_dear stress/dear.c LIBRARIES vmag_objects)
target_include_directories(stress_dear PRIVATE ${CMAKE_SOURCE_DIR}/tests)
target_link_options(stress_dear PRIVATE -Wl,--wrap=os_clock_thread_ns)
vmag_test(stress.dear quick 30 stress_dear)

vmag_test_program(stress_static stress/stress.c LIBRARIES vmag_static)
vmag_test(stress.static.4 slow 90 stress_static --threads 4 --seconds 5)

vmag_test_program(stress_drift stress/drift.c LIBRARIES vmag)
vmag_test(stress.drift quick 20 stress_drift)

vmag_test_program(stress_strings stress/strings.c LIBRARIES vmag)
vmag_test(stress.strings quick 20 stress_strings)
set_tests_properties(stress.strings PROPERTIES ENVIRONMENT "VMAG_CONF=thp:never")

vmag_test_program(stress_turns stress/turns.c LIBRARIES vmag)
vmag_test(stress.turns quick 20 stress_turns)

vmag_test_program(stress_left stress/left.c LIBRARIES vmag)
vmag_test(stress.left quick 20 stress_left)
set_tests_properties(stress.left PROPERTIES ENVIRONMENT "VMAG_CONF=dirty_decay_ms:60000,narenas:8")

vmag_test_program(stress_havoc stress/havoc.c LIBRARIES vmag)
foreach(threads 2 12)
  vmag_test(stress.havoc.${threads} slow 60 stress_havoc ${threads} 4)
endforeach()
vmag_test(stress.havoc.apart slow 60 stress_havoc 6 4)
set_tests_properties(stress.havoc.apart PROPERTIES ENVIRONMENT "VMAG_CONF=narenas:8")
vmag_test(stress.havoc.processors slow 60 stress_havoc 6 4)
set_tests_properties(stress.havoc.processors PROPERTIES ENVIRONMENT "VMAG_CONF=front:cpu")
