// Its first thread ends and another sleeps on: by its number the kernel tells nothing of its memory.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static void *sleeper(void *unused)
{
	pause();
	return unused;
}

int main(void)
{
	pthread_t other;

	pthread_create(&other, NULL, sleeper, NULL);
	pthread_exit(NULL);
}
