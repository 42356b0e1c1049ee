// The ends of threads by POSIX keys.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/thread.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>

static struct {
	pthread_key_t key;
	bool made;
} ends[OS_THREAD_ENDS];

bool os_thread_exit_hook(enum os_thread_end who, void (*function)(void *value))
{
	ends[who].made = pthread_key_create(&ends[who].key, function) == 0;
	return ends[who].made;
}

bool os_thread_exit_value(enum os_thread_end who, void *value)
{
	return ends[who].made && pthread_setspecific(ends[who].key, value) == 0;
}

void os_thread_name(char *name, size_t size)
{
	char own[16] = "";

	prctl(PR_GET_NAME, own);
	strncpy(name, own, size - 1);
	name[size - 1] = '\0';
}
