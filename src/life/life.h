// Life of the process: load, fork, exit.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// When the library is loaded, and when the process exits. Memory can be allocated before and after.
void life_begin(void);
void life_end(void);
