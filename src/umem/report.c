// Exported: vmag_umem_report, and the same at the end of the process.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "umem/report.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <vmag/report.h>

#include "conf/options.h"
#include "heap/debug.h"
#include "life/life.h"
#include "os/file.h"
#include "os/mutex.h"
#include "os/pages.h"
#include "os/sandbox.h"
#include "os/thread.h"
#include "util/bits.h"
#include "watch/request.h"

enum report { UMASTAT, UMEM_CACHE, VMEM, WHATIS, FINDLEAKS, UMAUSERS, UMEM_VERIFY, UMEM_LOG, UMEM_STATUS };

// Without pointers, each of which the loader would complete in every process (docs/decisions/0027).
static const struct request {
	char name[16];
	enum report report;
	bool needs_debugging;
} requests[] = {
	{ "umastat", UMASTAT, false },
	{ "umem_cache", UMEM_CACHE, false },
	{ "vmem", VMEM, false },
	{ "whatis", WHATIS, false },
	{ "findleaks", FINDLEAKS, true },
	{ "umausers", UMAUSERS, true },
	{ "umem_verify", UMEM_VERIFY, true },
	{ "umem_log", UMEM_LOG, false },
	{ "umem_status", UMEM_STATUS, false },
};

static int write_body(struct out *out, enum report report, const char *rest)
{
	switch (report) {
	case UMASTAT: return report_umastat(out, rest);
	case UMEM_CACHE: return report_caches(out, rest);
	case VMEM: return report_vmem(out, rest);
	case WHATIS: return report_whatis(out, rest);
	case FINDLEAKS: return report_findleaks(out, rest);
	case UMAUSERS: return report_umausers(out, rest);
	case UMEM_VERIFY: return report_verify(out, rest);
	case UMEM_LOG: return report_log(out, rest);
	case UMEM_STATUS: return report_status(out, rest);
	}
	return EINVAL;
}

struct report_word report_next_word(const char **rest)
{
	struct report_word word = { { 0 } };
	size_t length;

	while (**rest == ' ')
		(*rest)++;
	length = strcspn(*rest, " ");
	memcpy(word.text, *rest, min_size(length, sizeof word.text - 1));
	*rest += length;
	return word;
}

static const struct request *find_request(const char *name)
{
	for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
		if (strcmp(requests[i].name, name) == 0)
			return &requests[i];
	return NULL;
}

static int write_report(struct out *out, const struct request *request, const char *rest)
{
	int error;

	out_open(out, NULL, '{');
	if (out->json) {
		out_string(out, "format", "vmag-umem-1");
		out_string(out, "report", request->name);
		out_number(out, "pid", (uint64_t)os_process_number());
	}
	error = write_body(out, request->report, rest);
	out_close(out, '}');
	if (out->json)
		out_add(out, "\n");
	return error;
}

// What tells of the request; of the file the system may say the same.
static bool is_of_request(int error)
{
	return error == EINVAL || error == ENOTSUP || error == ENOENT || error == ENOMEM || error == ENODATA;
}

// Other threads' reports need not wait: each has memory of its own.
static int report_to(int file, const char *text, bool json)
{
	struct report_word name = report_next_word(&text);
	const struct request *request = find_request(name.text);
	struct out *out;
	int error;

	if (request == NULL)
		return EINVAL;
	if (request->needs_debugging && !debugging())
		return ENOTSUP;
	out = os_pages_map(round_up(sizeof *out, os_page_size()));
	if (out == NULL)
		return ENOMEM;
	out_begin(out, file, json);
	error = write_report(out, request, text);
	if (error == 0) {
		out_end(out);
		error = is_of_request(out->error) ? EIO : out->error;
	}
	os_pages_unmap(out, round_up(sizeof *out, os_page_size()));
	return error;
}

EXPORT int vmag_umem_report(int file, const char *request, int format)
{
	int error = format == VMAG_REPORT_TEXT || format == VMAG_REPORT_JSON ?
			    report_to(file, request, format == VMAG_REPORT_JSON) :
			    EINVAL;

	if (error == 0)
		return 0;
	errno = error;
	return -1;
}

static __attribute__((noinline)) void complain(const char *request, int error)
{
	os_stderr_say("vmag: VMAG_UMEM_REPORT=%s: %s", request,
		      error == EINVAL  ? "no such report; there are umastat, umem_cache, vmem, whatis, findleaks, umausers, umem_verify, "
					 "umem_log, umem_status" :
		      error == ENOTSUP ? (strncmp(request, "umem_log", 8) == 0 ? "needs UMEM_LOGGING with that log; transaction and contents need UMEM_DEBUG=audit, too" :
								 "needs UMEM_DEBUG") :
		      error == ENOENT  ? "there is no arena of that name" :
		      error == ENOMEM  ? "no memory for it" :
		      error == ENODATA ? "the system does not tell what is mapped (/proc/self/smaps)" :
					 "the file cannot be written");
}

// The path with %p replaced by the number of the process; −1 also where that is too long.
static int open_path(const char *path)
{
	char name[1024];
	struct text text = text_into(name, sizeof name - 1);

	for (; *path != '\0'; path++)
		if (path[0] == '%' && path[1] == 'p') {
			text_add(&text, "%d", os_process_number());
			path++;
		} else
			text_add(&text, "%c", *path);
	*text.at = '\0';
	return text.at < text.end ? os_file_add_to(name) : -1;
}

// REQUEST[,json][,PATH]; without a path to stderr. An errno.
static int report_as_told(const char *value)
{
	size_t length = strcspn(value, ",");
	const char *rest = value + length + (value[length] == ',');
	bool json = strncmp(rest, "json", 4) == 0 && (rest[4] == ',' || rest[4] == '\0');
	char request[128] = { 0 };
	int file = STDERR_FILENO, error = 0;

	memcpy(request, value, min_size(length, sizeof request - 1));
	if (json)
		rest += rest[4] == ',' ? 5 : 4;
	if (*rest != '\0')
		file = open_path(rest);
	error = file < 0 ? EIO : report_to(file, request, json);
	if (file > STDERR_FILENO)
		os_file_close(file); // close(2) is where a thread may be cancelled
	return error;
}

static const char *asked_at_exit; // by VMAG_UMEM_REPORT, as the process began; written where it is asked for alone

// An observer may ask for the same (watch/request.h).
__attribute__((constructor(102))) static void at_load(void)
{
	const char *asked = life_variable("VMAG_UMEM_REPORT");

	request_report = report_as_told;
	if (asked != NULL)
		asked_at_exit = asked;
}

// Not amid an operation of ours (life/life.c).
static COLD __attribute__((noinline)) void report_at_exit(void)
{
	int error;

	if (*asked_at_exit == '\0' || os_has_filter() || mutexes_held != 0)
		return;
	error = report_as_told(asked_at_exit);
	if (error != 0)
		complain(asked_at_exit, error);
}

// Runs after the program's own ends of the same kind, and before the library's (priority 101).
__attribute__((destructor(102))) static void at_exit(void)
{
	if (asked_at_exit != NULL)
		report_at_exit();
}
