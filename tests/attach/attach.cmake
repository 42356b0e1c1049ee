# attach.*: what an observer sees of a process that runs, is stopped or was killed, and what it can ask of it.
# SPDX-License-Identifier: BSD-2-Clause

vmag_test_program(attach_target attach/target.c)
vmag_test_program(attach_target_linked attach/target.c LIBRARIES vmag_static)
foreach(case counters sampled_counters profile unreachable switch trace busy black_box out_of_memory box_counters fork reports refused spoilt secure)
  vmag_test(attach.${case} quick 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/attach/attach.py ${CMAKE_BINARY_DIR}/bin/vmag
            $<TARGET_FILE:vmag> $<TARGET_FILE:attach_target> ${case})
endforeach()
vmag_test_program(attach_let_read attach/let_read.c)
vmag_test(attach.let_read quick 30 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/attach/let_read.py $<TARGET_FILE:vmag> $<TARGET_FILE:attach_let_read>)
