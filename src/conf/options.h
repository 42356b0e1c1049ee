// Options of the process: read once at first use, constant afterwards.
//
// Source: the environment variable VMAG_CONF, "name:value,name:value". Programs that run with raised privileges
// (setuid, file capabilities) ignore it. A bad name or value is told in one line and skipped.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

struct options {
#define OPTION(name, type, value, least, most, meaning) type name;
#include "conf/options.def"
#undef OPTION
};

extern struct options options;

// Called once, before a second thread can exist in the library.
void options_read(void);

// The value of an environment variable, NULL when unset or when the process runs with raised privileges.
const char *environment(const char *name);
