# nomem.*: the n-th memory system call fails, for all n; limits on address space and data; small cgroups; strict overcommit.
# SPDX-License-Identifier: BSD-2-Clause

vmag_test_program(nomem_inject nomem/inject.c)
vmag_test_program(nomem_exercise nomem/exercise.c LIBRARIES vmag)
vmag_test_program(nomem_first_use nomem/first_use.c)
vmag_test_program(nomem_exhaust nomem/exhaust.c LIBRARIES vmag)
vmag_test_program(nomem_churn nomem/churn.c LIBRARIES vmag)

vmag_test(nomem.nth_call slow 120 nomem_inject $<TARGET_FILE:nomem_exercise>)
vmag_test(nomem.nth_call_onward slow 120 nomem_inject --onward $<TARGET_FILE:nomem_exercise>)
vmag_test(nomem.first_use slow 120 nomem_inject $<TARGET_FILE:nomem_first_use> $<TARGET_FILE:vmag>)
vmag_test(nomem.first_use_onward slow 120 nomem_inject --onward $<TARGET_FILE:nomem_first_use> $<TARGET_FILE:vmag>)

foreach(source huge memory_file) # errno where the heap comes from elsewhere
  vmag_test(nomem.source.${source} quick 60 nomem_exercise)
endforeach()
set_tests_properties(nomem.source.huge PROPERTIES ENVIRONMENT "VMAG_CONF=heap_source:huge")
set_tests_properties(nomem.source.memory_file PROPERTIES ENVIRONMENT "VMAG_CONF=heap_source:memory_file=errno")

foreach(kind address-space data cgroup overcommit)
  vmag_test(nomem.${kind} quick 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/nomem/limits.py ${kind}
            $<TARGET_FILE:nomem_exercise> $<TARGET_FILE:nomem_exhaust> $<TARGET_FILE:nomem_churn>)
endforeach()
set_tests_properties(nomem.overcommit PROPERTIES RUN_SERIAL ON)

vmag_test_program(nomem_mappings nomem/mappings.c LIBRARIES vmag)
vmag_test(nomem.mappings quick 120 nomem_mappings)
vmag_test(nomem.mappings.used_up quick 120 nomem_mappings used_up)
vmag_test(nomem.mappings.used_up.small_pages quick 120 nomem_mappings used_up)
set_tests_properties(nomem.mappings.used_up.small_pages PROPERTIES ENVIRONMENT "VMAG_CONF=thp:never")
vmag_test(nomem.mappings.arenas quick 120 nomem_mappings arenas)
set_tests_properties(nomem.mappings.arenas PROPERTIES ENVIRONMENT "VMAG_CONF=thp:never")
vmag_test_program(nomem_moves nomem/moves.c LIBRARIES vmag)
foreach(what sealed watched split many)
  vmag_test(nomem.moves.${what} quick 120 nomem_moves ${what})
endforeach()
vmag_test_program(nomem_locked nomem/locked.c LIBRARIES vmag)
vmag_test(nomem.locked quick 30 nomem_locked)
vmag_test_program(nomem_refused nomem/refused.c LIBRARIES vmag)
vmag_test(nomem.refused quick 30 nomem_refused)
vmag_test_program(nomem_second nomem/second.c LIBRARIES vmag)
vmag_test(nomem.second quick 30 nomem_second)
vmag_test_program(nomem_wishes nomem/wishes.c LIBRARIES vmag)
vmag_test(nomem.wishes quick 60 nomem_wishes)
vmag_test_program(nomem_huge_refused nomem/huge_refused.c LIBRARIES vmag)
vmag_test(nomem.huge_refused quick 60 nomem_huge_refused)

vmag_test_program(nomem_joined nomem/joined.c LIBRARIES vmag)
vmag_test(nomem.joined quick 60 nomem_joined)

vmag_test_program(nomem_caches nomem/caches.c LIBRARIES vmag)
vmag_test(nomem.caches quick 60 nomem_caches)

# A limit on address space that the program sets itself: libumem's tests and glibc's give themselves 80 and 200 MiB.
vmag_test_program(nomem_later nomem/later.c LIBRARIES vmag)
foreach(mebibytes 80 200)
  vmag_test(nomem.later.${mebibytes} quick 120 nomem_later ${mebibytes})
endforeach()
vmag_test(nomem.later.threads quick 120 nomem_later 200 threads)
vmag_test(nomem.later.prlimit quick 120 nomem_later 200 prlimit)
vmag_test(nomem.later.taken quick 120 nomem_later 200 taken)
vmag_test_program(nomem_later_resident nomem/later_resident.c LIBRARIES vmag)
vmag_test(nomem.later.resident quick 30 nomem_later_resident)
