// The root that other processes read (include/vmag/format.h).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// Called when the library is loaded. Programs with raised privileges have no root.
void root_publish(void);
