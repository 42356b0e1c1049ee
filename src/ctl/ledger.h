// The ledger: every resident byte of the process under one name (include/vmag/ledger.h).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>

#include "vmag/ledger.h"

struct text;

// False, and errno, when the kernel does not tell. Allocates nothing; takes the locks of bins, one at a time.
bool ledger_take(struct vmag_ledger *ledger);

// As the fields of a JSON object, without braces; and as lines for people.
void ledger_json(struct text *text, const struct vmag_ledger *ledger);
void ledger_lines(struct text *text, const struct vmag_ledger *ledger);
