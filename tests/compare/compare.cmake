# compare.*: `vmag compare` with the real library and the peers of the system; its JSON against the schema, its intervals against scipy.
# SPDX-License-Identifier: BSD-2-Clause

vmag_test(compare.tool quick 120 ${PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/compare/compare.py ${CMAKE_BINARY_DIR}/bin/vmag
          $<TARGET_FILE:vmag> ${CMAKE_SOURCE_DIR}/docs/compare.schema.json)
