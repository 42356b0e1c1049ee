# nomem.*: the n-th memory system call fails, for all n; limits on address space and data; small cgroups; strict overcommit.
# SPDX-License-Identifier: BSD-2-Clause

vmag_test_program(nomem_inject nomem/inject.c)
vmag_test_program(nomem_exercise nomem/exercise.c LIBRARIES vmag)
vmag_test_program(nomem_exercise_static nomem/exercise.c LIBRARIES vmag_static)
# norelro: without it the C library's start-up calls mprotect too, and ends the program when that fails.
target_link_options(nomem_exercise_static PRIVATE -static -Wl,-z,norelro)
vmag_test_program(nomem_exhaust nomem/exhaust.c LIBRARIES vmag)
vmag_test_program(nomem_churn nomem/churn.c LIBRARIES vmag)

vmag_test(nomem.nth_call slow 120 nomem_inject $<TARGET_FILE:nomem_exercise>)
vmag_test(nomem.nth_call_onward slow 120 nomem_inject --onward $<TARGET_FILE:nomem_exercise>)
# Statically linked there is no loader, so that counting from exec reaches the allocator's very first call.
vmag_test(nomem.nth_call_from_exec slow 120 nomem_inject --from-exec $<TARGET_FILE:nomem_exercise_static>)
vmag_test(nomem.nth_call_from_exec_onward slow 120 nomem_inject --from-exec --onward $<TARGET_FILE:nomem_exercise_static>)

foreach(kind address-space data cgroup overcommit)
  vmag_test(nomem.${kind} quick 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/nomem/limits.py ${kind}
            $<TARGET_FILE:nomem_exercise> $<TARGET_FILE:nomem_exhaust> $<TARGET_FILE:nomem_churn>)
endforeach()
set_tests_properties(nomem.overcommit PROPERTIES RUN_SERIAL ON)
