// What jemalloc's own tests include in place of its header of the same name: the vocabulary of those tests, over the public interface alone.
// A test that wants more than that does not compile with it, and so does not belong here.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <jemalloc/jemalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The words of jemalloc's code in general.
 */
#define JEMALLOC_ALWAYS_INLINE static inline
#define JEMALLOC_DIAGNOSTIC_PUSH
#define JEMALLOC_DIAGNOSTIC_POP
#define JEMALLOC_DIAGNOSTIC_IGNORE_ALLOC_SIZE_LARGER_THAN
#define JEMALLOC_OVERRIDE_VALLOC
#define JEMALLOC_DIAGNOSTIC_IGNORE(warning)
#ifndef JEMALLOC_N
#define JEMALLOC_N(name) name
#endif
#define SIZE_T_MAX SIZE_MAX
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define likely(condition) __builtin_expect(!!(condition), 1)
#define TEST_MALLOC_SIZE malloc_usable_size
#define LG_PAGE 12
#define PAGE ((size_t)1 << LG_PAGE)
#define PAGE_MASK (PAGE - 1)
#define PAGE_CEILING(size) (((size) + PAGE_MASK) & ~PAGE_MASK)
#define PAGE_ADDR2BASE(address) ((void *)((uintptr_t)(address) & ~PAGE_MASK))
#define LG_QUANTUM 4
#define QUANTUM ((size_t)1 << LG_QUANTUM)
#define CACHELINE 64
#define LG_SIZEOF_PTR 3
#define ZU(number) ((size_t)number)
#define ZD(number) ((ssize_t)number)
#define QU(number) ((uint64_t)number)
#define QD(number) ((int64_t)number)
#define KQU(number) QU(number##ULL)
#define FMTd32 PRId32
#define FMTu32 PRIu32
#define FMTx32 PRIx32
#define FMTd64 PRId64
#define FMTu64 PRIu64
#define FMTx64 PRIx64
#define FMTptr PRIxPTR
#define BUFERROR_BUF 64
#define STRERROR_BUF 64
#define assert(condition) assert_true(condition, "assertion")
#define cassert(condition) assert_true(condition, "assertion")
#define not_reached() assert_true(false, "not reached")
#define malloc_snprintf snprintf
#define malloc_vsnprintf vsnprintf
#define malloc_printf(...) fprintf(stderr, __VA_ARGS__)
#define malloc_write(string) fputs(string, stderr)
#define malloc_open open
#define malloc_read_fd read
#define malloc_close close
#define get_errno() errno
#define set_errno(number) (errno = (number))

static inline size_t pow2_ceil_u64(uint64_t x) { return x <= 1 ? x : (size_t)1 << (64 - __builtin_clzl(x - 1)); }
static inline size_t pow2_ceil_zu(size_t x) { return x <= 1 ? x : (size_t)1 << (64 - __builtin_clzl(x - 1)); }
static inline unsigned lg_floor(size_t x) { return 63 - (unsigned)__builtin_clzl(x); }
static inline unsigned lg_ceil(size_t x) { return lg_floor(x) + ((x & (x - 1)) != 0); }

// Of the configuration: what our build has.
static const bool config_stats = true, config_prof = true, config_fill = true, config_debug = false, config_utrace = false, config_xmalloc = true;
static const bool config_opt_safety_checks = true, config_opt_size_checks = true, config_cache_oblivious = false, config_lazy_lock = false, config_prof_libgcc = false;
static const bool have_background_thread = true, maps_coalesce = true, have_percpu_arena = true, have_memcntl = false, have_dss = true;
static const bool config_enable_cxx = true, config_infallible_new = false, config_uaf_detection = false;
static const bool have_madvise_huge = true, config_log = false;

// Of the options: what they are now.
static inline bool test_option(const char *name)
{
	bool value = false;
	size_t size = sizeof value;

	mallctl(name, &value, &size, NULL, 0);
	return value;
}

static inline size_t test_number(const char *name)
{
	size_t value = 0, size = sizeof value;

	mallctl(name, &value, &size, NULL, 0);
	return value;
}

static inline size_t test_fresh_number(const char *name)
{
	uint64_t epoch = 1;

	mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
	return test_number(name);
}

static inline const char *test_word(const char *name)
{
	const char *value = "";
	size_t size = sizeof value;

	mallctl(name, &value, &size, NULL, 0);
	return value;
}

#define opt_prof test_option("opt.prof")
#define opt_prof_active test_option("opt.prof_active")
#define opt_tcache test_option("opt.tcache")
#define opt_retain test_option("opt.retain")
#define opt_zero test_option("opt.zero")
#define opt_abort test_option("opt.abort")
#define opt_background_thread test_option("opt.background_thread")
#define opt_hpa false
#define opt_tcache_max test_number("opt.tcache_max")
#define opt_lg_prof_sample test_number("opt.lg_prof_sample")
#define opt_dirty_decay_ms ((ssize_t)test_number("opt.dirty_decay_ms"))
#define opt_muzzy_decay_ms ((ssize_t)test_number("opt.muzzy_decay_ms"))
#define opt_oversize_threshold test_number("opt.oversize_threshold")
#define opt_narenas ((unsigned)test_number("opt.narenas"))
#define opt_junk_alloc (*test_word("opt.junk") == 't' || *test_word("opt.junk") == 'a')
#define opt_junk_free (strcmp(test_word("opt.junk"), "true") == 0 || strcmp(test_word("opt.junk"), "free") == 0)
#define is_background_thread_enabled() test_option("background_thread")
#define background_thread_enabled() test_option("background_thread")

#define opt_prof_sys_thread_name test_option("opt.prof_sys_thread_name")
#define opt_prof_unbias test_option("opt.prof_unbias")
#define opt_prof_stats test_option("opt.prof_stats")
#define opt_cache_oblivious test_option("opt.cache_oblivious")
#define opt_zero_realloc_action test_word("opt.zero_realloc")[0]
#define opt_percpu_arena test_word("opt.percpu_arena")[0]
#define ncpus ((unsigned)sysconf(_SC_NPROCESSORS_ONLN))
#define n_background_threads test_fresh_number("stats.background_thread.num_threads")
#define hpa_supported() false
#define san_uaf_detection_enabled() false
enum { zero_realloc_action_alloc = 'a', zero_realloc_action_free = 'f', zero_realloc_action_abort = 'A', percpu_arena_disabled = 'd' };
enum { PROF_THREAD_NAME_MAX_LEN = 16, DIRTY_DECAY_MS_DEFAULT = 2500, MUZZY_DECAY_MS_DEFAULT = 0, DEFAULT_MAX_BACKGROUND_THREADS = 4 };
#define MALLCTL_MAX_ARENAS MALLCTL_ARENAS_ALL
#define MALLOCX_ARENA_LIMIT 4095
#define STRINGIFY_OF(x) #x
#define STRINGIFY(x) STRINGIFY_OF(x)
#define CONCAT_OF(a, b) a##b
#define CONCAT(a, b) CONCAT_OF(a, b)
#define UNUSED __attribute__((unused))
#define VARIABLE_ARRAY(type, name, count) type *name = (type *)__builtin_alloca(sizeof(type) * (count))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof(array)[0])
#define ALIGNMENT_CEILING(size, alignment) (((size) + (alignment) - 1) & ~((alignment) - 1))
#define ALIGNMENT_ADDR2BASE(address, alignment) ((void *)((uintptr_t)(address) & ~((uintptr_t)(alignment) - 1)))

// Of the size classes: what the controls say. A size is rounded up as nallocx does it.
typedef unsigned szind_t;
#define SC_NBINS ((unsigned)test_number32("arenas.nbins"))
#define SC_NSIZES (SC_NBINS + test_number32("arenas.nlextents"))
#define SC_SMALL_MAXCLASS test_class_size(SC_NBINS - 1)
#define SC_LARGE_MINCLASS test_class_size(SC_NBINS)
#define SC_LG_LARGE_MINCLASS lg_floor(SC_LARGE_MINCLASS)
#define SC_LARGE_MAXCLASS test_class_size(SC_NSIZES - 1)
#define sz_index2size test_class_size
#define sz_s2u(size) nallocx(size, 0)
#define sz_sa2u(size, alignment) nallocx(size, MALLOCX_ALIGN(alignment))

static inline unsigned test_number32(const char *name)
{
	unsigned value = 0;
	size_t size = sizeof value;

	mallctl(name, &value, &size, NULL, 0);
	return value;
}

static inline size_t test_class_size(unsigned class_)
{
	char name[40];
	unsigned bins = SC_NBINS;

	snprintf(name, sizeof name, class_ < bins ? "arenas.bin.%u.size" : "arenas.lextent.%u.size", class_ < bins ? class_ : class_ - bins);
	return test_number(name);
}

static inline szind_t sz_size2index(size_t size)
{
	szind_t class_ = 0;

	while (test_class_size(class_) < size)
		class_++;
	return class_;
}

static inline void safety_check_set_abort(void (*hook)(const char *))
{
	void *pointer = (void *)hook;

	mallctl("experimental.hooks.safety_check_abort", NULL, NULL, &pointer, sizeof pointer);
}

typedef void (*prof_backtrace_hook_t)(void **, unsigned *, unsigned);
typedef void (*prof_dump_hook_t)(const char *);

// Time.
typedef struct { uint64_t ns; } nstime_t;
static const nstime_t nstime_zero = { 0 };
#define NSTIME_ZERO_INITIALIZER { 0 }
static inline void nstime_init(nstime_t *time, uint64_t ns) { time->ns = ns; }
static inline void nstime_init2(nstime_t *time, uint64_t s, uint64_t ns) { time->ns = s * 1000000000 + ns; }
static inline uint64_t nstime_ns(const nstime_t *time) { return time->ns; }
static inline void nstime_copy(nstime_t *to, const nstime_t *from) { *to = *from; }
static inline void nstime_add(nstime_t *to, const nstime_t *by) { to->ns += by->ns; }
static inline void nstime_iadd(nstime_t *to, uint64_t ns) { to->ns += ns; }
static inline void nstime_subtract(nstime_t *to, const nstime_t *by) { to->ns -= by->ns; }
static inline int nstime_compare(const nstime_t *a, const nstime_t *b) { return (a->ns > b->ns) - (a->ns < b->ns); }
static inline void nstime_update(nstime_t *time)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	nstime_init2(time, (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec);
}
static inline void nstime_init_update(nstime_t *time) { nstime_update(time); }
static inline void buferror(int error, char *buffer, size_t size) { snprintf(buffer, size, "%s", strerror(error)); }

/*
 * Checks: expect_* goes on, assert_* ends the test.
 */
extern unsigned test_failures;
void test_failed(const char *file, int line, const char *what, long long a, long long b, const char *format, ...)
	__attribute__((format(printf, 6, 7)));

#define test_fail(...) test_failed(__FILE__, __LINE__, "so far", 0, 0, __VA_ARGS__)
#define TEST_COMPARE(type, end, a, operation, b, ...)                                                                                   \
	do {                                                                                                                             \
		type a_ = (type)(a);                                                                                                     \
		type b_ = (type)(b);                                                                                                     \
		if (!(a_ operation b_)) {                                                                                                \
			test_failed(__FILE__, __LINE__, #a " " #operation " " #b, (long long)(intptr_t)a_, (long long)(intptr_t)b_, "" __VA_ARGS__); \
			end;                                                                                                             \
		}                                                                                                                        \
	} while (0)

#include "test/checks.h" // expect_zu_eq and its like, for all types: written by own.py

/*
 * Tests.
 */
typedef void test_t(void);

extern bool test_skipped;
extern const char *test_name;
int test_run(bool first_use, test_t *first, ...);

#define TEST_BEGIN(name) static void name(void) { test_name = #name;
#define TEST_END return; }
#define test_skip(...) do { test_skipped = true; return; } while (0)
#define test_skip_if(condition) do { if (condition) test_skip(); } while (0)
#define test(...) test_run(true, __VA_ARGS__, (test_t *)NULL)
#define test_no_reentrancy(...) test_run(true, __VA_ARGS__, (test_t *)NULL)
#define test_no_malloc_init(...) test_run(false, __VA_ARGS__, (test_t *)NULL)

/*
 * Threads and locks.
 */
typedef pthread_t thd_t;
typedef pthread_mutex_t mtx_t;

void thd_create(thd_t *thread, void *(*run)(void *), void *argument);
void thd_join(thd_t thread, void **result);
static inline void thd_setname(const char *name) { pthread_setname_np(pthread_self(), name); }
static inline bool thd_has_setname(void) { return true; }
static inline bool mtx_init(mtx_t *lock) { return pthread_mutex_init(lock, NULL) != 0; }
static inline void mtx_fini(mtx_t *lock) { pthread_mutex_destroy(lock); }
static inline void mtx_lock(mtx_t *lock) { pthread_mutex_lock(lock); }
static inline void mtx_unlock(mtx_t *lock) { pthread_mutex_unlock(lock); }
static inline void sleep_ns(unsigned ns) { nanosleep(&(struct timespec){ ns / 1000000000, ns % 1000000000 }, NULL); }

#include "test/btalloc.h"

#ifdef __cplusplus
}
#endif
