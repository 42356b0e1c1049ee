// Exported: setrlimit and prlimit. A process that gives itself less address space than it has may want what the page map has only reserved for stacks
// and mappings of its own, before the heap is refused any (docs/decisions/0001).
//
// By the system's call and nothing else, as the C library's are: programs call them between fork and exec.
// Not in the static library: there the program decides what they are.
// SPDX-License-Identifier: BSD-2-Clause
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>

#include "os/system_call.h"
#include "os/thread.h"
#include "pages/page_map.h"
#include "util/bits.h"

// Not declared without the system's extensions, with which these have other types.
EXPORT int prlimit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old);
EXPORT int prlimit64(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old) __attribute__((alias("prlimit")));
EXPORT int setrlimit64(int resource, const struct rlimit *limit);

static int set(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old)
{
	int result = (int)os_system_call(SYS_prlimit64, process, resource, limit, old);

	if (result == 0 && limit != NULL && resource == RLIMIT_AS && (process == 0 || process == os_process_number()))
		page_map_heed_limit();
	return result;
}

int prlimit(pid_t process, int resource, const struct rlimit *limit, struct rlimit *old)
{
	return set(process, resource, limit, old);
}

EXPORT int setrlimit(int resource, const struct rlimit *limit)
{
	return set(0, resource, limit, NULL);
}

int setrlimit64(int resource, const struct rlimit *limit)
{
	return set(0, resource, limit, NULL);
}
