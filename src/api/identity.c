// Exported: the functions that change what each thread has of its own in the kernel and a process of one thread takes for the process's: user and groups,
// capabilities, namespaces. The background thread, if the C library does not know of it (os/unseen.h), is dismissed first: it would keep what it had,
// and a process with a second thread may not have another user namespace.
//
// In a process of one thread they are the system's call and nothing else, as the C library's are: programs call them between fork and exec. With
// several the C library tells the others.
// Not in the static library, nor with other C libraries than glibc: there each background thread is by pthread_create.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "heap/reclaim.h"
#include "os/system_call.h"
#include "os/unseen.h"
#include "util/bits.h"

#ifdef __GLIBC__

static COLD void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

// The system's call while there is one thread, else the C library's function.
#define CHANGE(name, parameters, arguments, call) \
	EXPORT int name parameters \
	{ \
		int(*function) parameters; \
\
		reclaim_dismiss(); \
		if (os_process_is_single()) \
			return (int)(call); \
		*(void **)&function = real(#name); \
		return function arguments; \
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

// Not declared without the system's extensions, and by <grp.h>, <sched.h> and <sys/capability.h>.
EXPORT int initgroups(const char *user, gid_t group);
EXPORT int unshare(int flags);
EXPORT int setns(int descriptor, int type);
EXPORT int capset(void *header, const void *data);

// It asks who the user's groups are, and sets them by a function of its own.
int initgroups(const char *user, gid_t group)
{
	int (*function)(const char *user, gid_t group);

	reclaim_dismiss();
	*(void **)&function = real("initgroups");
	return function(user, group);
}

int unshare(int flags)
{
	reclaim_dismiss();
	return (int)os_system_call(SYS_unshare, flags);
}

int setns(int descriptor, int type)
{
	reclaim_dismiss();
	return (int)os_system_call(SYS_setns, descriptor, type);
}

int capset(void *header, const void *data)
{
	reclaim_dismiss();
	return (int)os_system_call(SYS_capset, header, data);
}

#endif
