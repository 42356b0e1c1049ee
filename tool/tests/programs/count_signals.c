/* Counts the signals that reach it: says "ready", waits for one, then until none has come for half a second.
 * SPDX-License-Identifier: BSD-2-Clause */
#include <signal.h>
#include <stdio.h>
#include <time.h>

int main(void)
{
	const struct timespec first_wait = {10, 0}, later_wait = {0, 500000000};
	sigset_t all;
	int received = 0, last = 0;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	puts("ready");
	fflush(stdout);
	for (;;) {
		int signal = sigtimedwait(&all, NULL, received ? &later_wait : &first_wait);
		if (signal < 0)
			break;
		received++;
		last = signal;
	}
	printf("%d of signal %d\n", received, last);
	return 0;
}
