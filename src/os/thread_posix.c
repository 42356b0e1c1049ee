// The ends of threads by a POSIX key.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/thread.h"

#include <pthread.h>
#include <stddef.h>

static pthread_key_t key;
static bool have_key;

bool os_thread_exit_hook(void (*function)(void *value))
{
	have_key = pthread_key_create(&key, function) == 0;
	return have_key;
}

void os_thread_exit_value(void *value)
{
	if (have_key)
		pthread_setspecific(key, value);
}
