// The exported ledger.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/ledger.h"

#include <errno.h>
#include <string.h>

#include "util/bits.h"
#include "util/format.h"

EXPORT int vmag_ledger(struct vmag_ledger *ledger, size_t size)
{
	int saved = errno;
	struct vmag_ledger whole;

	if (!ledger_take(&whole))
		return -1;
	memset(ledger, 0, size);
	memcpy(ledger, &whole, min_size(size, sizeof whole));
	errno = saved;
	return 0;
}

EXPORT int vmag_ledger_write(int as_json, void (*write)(void *argument, const char *text, size_t length), void *argument)
{
	char bytes[2048];
	struct text text = text_into(bytes, sizeof bytes);
	struct vmag_ledger ledger;

	if (vmag_ledger(&ledger, sizeof ledger) != 0)
		return -1;
	if (as_json) {
		text_add(&text, "{\"format\":\"vmag-ledger-1\",");
		ledger_json(&text, &ledger);
		text_add(&text, "}\n");
	} else
		ledger_lines(&text, &ledger);
	write(argument, bytes, (size_t)(text.at - bytes));
	return 0;
}
