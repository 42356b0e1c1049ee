// Reports: the requests of vmag/report.h, one function each.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "umem/out.h"

// `rest`: what follows the request's name. 0, or the errno.
int report_umastat(struct out *out, const char *rest);
int report_caches(struct out *out, const char *rest);
int report_vmem(struct out *out, const char *rest);
int report_whatis(struct out *out, const char *rest);
int report_findleaks(struct out *out, const char *rest);
int report_umausers(struct out *out, const char *rest);
int report_verify(struct out *out, const char *rest);
int report_log(struct out *out, const char *rest);
int report_status(struct out *out, const char *rest);

// The word up to a blank; `rest` is moved behind it. Words of 63 characters at most.
struct report_word {
	char text[64];
};
struct report_word report_next_word(const char **rest);
