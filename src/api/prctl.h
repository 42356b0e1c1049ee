// prctl, for those who call it by syscall(2).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// With answers as wide as the system's.
long prctl_wide(int option, long a, long b, long c, long d);
