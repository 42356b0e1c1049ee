// Exported: the functions that change what each thread has of its own in the kernel and a process of one thread takes for the process's: user and groups,
// capabilities, namespaces. The background thread, if the C library does not know of it (os/unseen.h), is dismissed first: it would keep what it had,
// and a process with a second thread may not have another user namespace.
//
// In a process of one thread they are the system's call and nothing else, as the C library's are: programs call them between fork and exec; but the next
// library's where it has its own. With several threads the C library tells the others.
// Not in the static library, where only a process with nothing to give up has such a thread, nor with other C libraries than glibc, where none has.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "api/identity.h"
#include "heap/reclaim.h"
#include "life/background.h"
#include "os/system_call.h"
#include "os/thread.h"
#include "os/unseen.h"
#include "util/bits.h"

void *identity_next;

#ifdef __GLIBC__

static COLD void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static bool is_systems(void)
{
	return os_process_is_single() && background_in_c_library(identity_next);
}

// The system's call while there is one thread, else the next library's function. No handler is to leave it in the middle by a longjmp; where the C library
// tells other threads by signals, it sees to that.
#define CHANGE(name, parameters, arguments, call) \
	EXPORT int name parameters \
	{ \
		bool systems = is_systems(), dismissed; \
		uint64_t before = systems ? os_signals_block() : 0; \
		int(*function) parameters, result; \
\
		dismissed = reclaim_dismiss(); \
		if (systems) \
			result = (int)(call); \
		else { \
			*(void **)&function = real(#name); \
			result = function arguments; \
		} \
		reclaim_recall(dismissed); \
		if (systems) \
			os_signals_restore(before); \
		return result; \
	}

static const long same = -1;

static int no_such(void)
{
	errno = EINVAL;
	return -1;
}

CHANGE(setuid, (uid_t user), (user), os_system_call(SYS_setuid, user))
CHANGE(setgid, (gid_t group), (group), os_system_call(SYS_setgid, group))
CHANGE(seteuid, (uid_t user), (user), user == (uid_t)same ? no_such() : os_system_call(SYS_setresuid, same, user, same))
CHANGE(setegid, (gid_t group), (group), group == (gid_t)same ? no_such() : os_system_call(SYS_setresgid, same, group, same))
CHANGE(setreuid, (uid_t user, uid_t effective), (user, effective), os_system_call(SYS_setreuid, user, effective))
CHANGE(setregid, (gid_t group, gid_t effective), (group, effective), os_system_call(SYS_setregid, group, effective))
CHANGE(setresuid, (uid_t user, uid_t effective, uid_t saved), (user, effective, saved), os_system_call(SYS_setresuid, user, effective, saved))
CHANGE(setresgid, (gid_t group, gid_t effective, gid_t saved), (group, effective, saved), os_system_call(SYS_setresgid, group, effective, saved))
CHANGE(setgroups, (size_t count, const gid_t *groups), (count, groups), os_system_call(SYS_setgroups, count, groups))

CHANGE(unshare, (int flags), (flags), os_system_call(SYS_unshare, flags))
CHANGE(setns, (int descriptor, int type), (descriptor, type), os_system_call(SYS_setns, descriptor, type))

// Declared by <grp.h> and <sys/capability.h>.
EXPORT int initgroups(const char *user, gid_t group);
EXPORT int capset(void *header, const void *data);
CHANGE(capset, (void *header, const void *data), (header, data), os_system_call(SYS_capset, header, data))

// It asks who the user's groups are, and sets them by a function of its own.
int initgroups(const char *user, gid_t group)
{
	bool dismissed = reclaim_dismiss();
	int (*function)(const char *user, gid_t group), result;

	*(void **)&function = real("initgroups");
	result = function(user, group);
	reclaim_recall(dismissed);
	return result;
}

#endif
