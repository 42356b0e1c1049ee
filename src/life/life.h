// Life of the process: load, fork, exit.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// When the library is loaded, and when the process exits. Memory can be allocated before and after.
void life_begin(void);
void life_end(void);

// What a variable of the environment says as the process begins, in memory of ours: a program may write over the strings, as who sets a title for ps does.
// NULL: it is not there, or longer than what could name a file. For the life of the process, never freed.
const char *life_variable(const char *name);
