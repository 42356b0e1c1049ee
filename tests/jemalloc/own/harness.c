// The few functions behind test/jemalloc_test.h.
// SPDX-License-Identifier: BSD-2-Clause
#include "test/jemalloc_test.h"

unsigned test_failures;
bool test_skipped;
const char *test_name = "";

void test_failed(const char *file, int line, const char *what, long long a, long long b, const char *format, ...)
{
	va_list arguments;

	test_failures++;
	printf("\t%s: %s:%d: not %s (%lld, %lld): ", test_name, file, line, what, a, b);
	va_start(arguments, format);
	vfprintf(stdout, format, arguments);
	va_end(arguments);
	putchar('\n');
}

// Says of each test "passed", "failed" or "skipped".
int test_run(bool first_use, test_t *first, ...)
{
	va_list tests;

	if (first_use)
		free(mallocx(1, 0));
	va_start(tests, first);
	for (test_t *each = first; each != NULL; each = va_arg(tests, test_t *)) {
		unsigned before = test_failures;

		test_skipped = false;
		each();
		printf("%s\t%s\n", test_failures > before ? "failed" : test_skipped ? "skipped" : "passed", test_name);
		fflush(stdout);
	}
	va_end(tests);
	return test_failures > 0;
}

void thd_create(thd_t *thread, void *(*run)(void *), void *argument)
{
	if (pthread_create(thread, NULL, run, argument) != 0)
		abort();
}

void thd_join(thd_t thread, void **result)
{
	pthread_join(thread, result);
}
