// Pages from Linux: mmap, mremap, madvise.
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include "os/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "os/file.h"
#include "os/map_count.h"
#include "os/sandbox.h"
#include "os/system_call.h"
#include "util/assert.h"
#include "util/bits.h"
#include "util/number.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum { PIECE = 2 * 1024 * 1024, PAGES_ASKED = 128, WISHES_A_LOOK = 4096 };
enum { READ_WRITE = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

size_t os_page_size(void)
{
	static _Atomic size_t known;
	size_t size = atomic_load_explicit(&known, memory_order_relaxed);

	if (size == 0) {
		size = (size_t)getauxval(AT_PAGESZ);
		atomic_store_explicit(&known, size, memory_order_relaxed);
	}
	return size;
}

static void *map(void *address, size_t size, int protection, int flags)
{
	void *p = mmap(address, size, protection, flags, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct os_mapping os_mappings[OS_MAPPINGS_MOST];
_Atomic unsigned os_mappings_count;

// The first free entry; without a lock, so that fork and signals find the table whole.
void os_pages_note(void *start, size_t size)
{
	for (unsigned i = 0; i < OS_MAPPINGS_MOST; i++) {
		uintptr_t none = 0;
		unsigned count = atomic_load(&os_mappings_count);

		if (atomic_load(&os_mappings[i].start) != 0 ||
		    !atomic_compare_exchange_strong(&os_mappings[i].start, &none, (uintptr_t)start))
			continue;
		atomic_store(&os_mappings[i].size, size);
		while (count <= i && !atomic_compare_exchange_strong(&os_mappings_count, &count, i + 1))
			;
		return;
	}
}

// How many bytes were noted there; 0: none.
static size_t mapping_forget(void *start)
{
	for (unsigned i = 0; i < atomic_load(&os_mappings_count); i++)
		if (atomic_load(&os_mappings[i].start) == (uintptr_t)start) {
			size_t size = atomic_exchange(&os_mappings[i].size, 0);

			atomic_store(&os_mappings[i].start, 0);
			return size;
		}
	return 0;
}

static bool (*_Atomic when_short)(void);

void os_pages_when_short(bool (*give_back)(void))
{
	atomic_store_explicit(&when_short, give_back, memory_order_release);
}

static COLD bool space_is_given_back(void)
{
	bool (*give_back)(void) = atomic_load_explicit(&when_short, memory_order_acquire);

	return errno == ENOMEM && give_back != NULL && give_back();
}

static inline __attribute__((always_inline)) void *map_anywhere(size_t size)
{
	void *start = map(NULL, size, READ_WRITE, PRIVATE);

	if (start == NULL && space_is_given_back())
		start = map(NULL, size, READ_WRITE, PRIVATE);
	return start;
}

void *os_pages_map_for_program(size_t size)
{
	return map_anywhere(size);
}

void *os_pages_map(size_t size)
{
	void *start = map_anywhere(size);

	if (start != NULL)
		os_pages_note(start, size);
	return start;
}

static bool unmap_failed(void *p, size_t size, int failure)
{
	if (p != NULL)
		munmap(p, size);
	errno = failure;
	return false;
}

// Granted elsewhere. Linux 6.7 to 6.12 does so with a wish of 2 MiB and more unless 2 MiB behind it are free as well; what is smaller is granted as ever: so the
// last 2 MiB are asked for in halves.
static COLD __attribute__((noinline)) bool map_in_parts(void *elsewhere, char *address, size_t size, int protection)
{
	size_t parts[] = { size - min_size(size, PIECE), PIECE / 2, PIECE / 2 }, done = 0;

	unmap_failed(elsewhere, size, EEXIST);
	for (size_t i = 0; i < 3 && size >= PIECE; done += parts[i++]) {
		char *p = parts[i] == 0 ? address : map(address + done, parts[i], protection, PRIVATE);

		if (p != address + done) {
			unmap_failed(p, parts[i], p == NULL ? errno : EEXIST);
			return unmap_failed(done > 0 ? address : NULL, done, errno);
		}
	}
	return size >= PIECE;
}

// The address is a wish, which the kernel grants where nothing is: MAP_FIXED_NOREPLACE says so in one call, but a program's sandbox may end who uses a
// flag that it does not know (docs/decisions/0001).
static bool map_exactly(void *address, size_t size, int protection)
{
	void *p = map(address, size, protection, PRIVATE);

	return LIKELY(p == address) || (p != NULL && map_in_parts(p, address, size, protection));
}

// What is nobody's file has nothing to be written.
static bool is_mapped(const void *address, size_t size)
{
	return os_system_call(SYS_msync, address, size, MS_ASYNC) == 0;
}

// Not as a wish: that is granted elsewhere. Kernels before 4.17, and some emulators (qemu-user), take it for one: granted elsewhere, somebody is there, or
// there is no such address.
COLD bool os_pages_exist(void *address)
{
	void *p = map(address, os_page_size(), PROT_READ, PRIVATE | MAP_FIXED_NOREPLACE);

	if (p == NULL)
		return errno == EEXIST;
	munmap(p, os_page_size());
	return p == address || is_mapped(address, os_page_size());
}

bool os_pages_reserve_at(void *address, size_t size)
{
	return map_exactly(address, size, PROT_READ);
}

void *os_pages_reserve(size_t size)
{
	return map(NULL, size, PROT_READ, PRIVATE);
}

bool os_pages_commit(void *address, size_t size)
{
	return mprotect(address, size, READ_WRITE) == 0;
}

void os_pages_dump(void *address, size_t size, bool wanted)
{
	int saved = errno;

	madvise(address, size, wanted ? MADV_DODUMP : MADV_DONTDUMP);
	errno = saved;
}

bool os_pages_close(void *address, size_t size)
{
	return map(address, size, PROT_NONE, PRIVATE | MAP_FIXED) != NULL;
}

// It is forgotten first, for who maps something next may get the same address.
bool os_pages_unmap(void *address, size_t size)
{
	int saved = errno;
	size_t noted = mapping_forget(address);
	bool unmapped = munmap(address, size) == 0;

	if (!unmapped && noted != 0)
		os_pages_note(address, noted);
	errno = saved;
	return unmapped;
}

static bool remap_fresh(void *address, size_t size)
{
	return map(address, size, READ_WRITE, PRIVATE | MAP_FIXED) != NULL;
}

// Some emulators take MADV_DONTNEED as a hint and leave the contents (qemu-user). Tried on a page of our own, for what a program's hooks gave may be shared, until
// it is not refused, as it is while the program locks all that is mapped.
static bool dontneed_zeroes(void)
{
	static _Atomic int known; // 0 not tried, 1 it does, 2 it does not
	int answer = atomic_load_explicit(&known, memory_order_relaxed);
	volatile char *probe;

	if (answer == 0 && (probe = os_pages_map(os_page_size())) != NULL) {
		*probe = 1;
		if (madvise((char *)probe, os_page_size(), MADV_DONTNEED) == 0)
			answer = *probe == 0 ? 1 : 2;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
		os_pages_unmap((char *)probe, os_page_size());
	}
	return answer != 2;
}

// Whether the program locks all that is mapped from now on (mlockall): it wants what there is to stay.
static bool locks_all(void)
{
	void *probe = os_pages_map(os_page_size());
	bool locks = probe == NULL || madvise(probe, os_page_size(), MADV_DONTNEED) != 0;

	if (probe != NULL)
		os_pages_unmap(probe, os_page_size());
	return locks;
}

// What the program locked and then freed is locked no more, as if it had been unmapped.
static __attribute__((noinline)) bool purge_unlocked(void *address, size_t size)
{
	return !locks_all() && os_system_call(SYS_munlock, address, size) == 0 && madvise(address, size, MADV_DONTNEED) == 0;
}

// The system refuses when a page is locked, and may have given back what lies before it.
bool os_pages_purge(void *address, size_t size)
{
	int saved = errno;
	bool purged = !dontneed_zeroes() ? remap_fresh(address, size) :
					   madvise(address, size, MADV_DONTNEED) == 0 || (errno == EINVAL && purge_unlocked(address, size));

	errno = saved;
	return purged;
}

// From the file of the process's page tables: mincore(2) would tell in one call, but is not among those that systemd calls @system-service, and a filter
// of system calls may end who uses another (docs/decisions/0005).
size_t os_pages_resident(void *address, size_t size)
{
	static char name[] __attribute__((section(".data"))) = "/proc/self/pagemap"; // not among the constants, of which a first look brings along 128 KiB
	uint64_t pages[PAGES_ASKED], is_present = (uint64_t)1 << 63;
	size_t page = os_page_size(), count = size / page, resident = 0;
	uint64_t at = (uintptr_t)address / page;
	int saved = errno, file = os_is_shut_in() ? -1 : os_file_open(name);

	for (size_t done = 0, asked; file >= 0 && done < count; done += asked) {
		asked = min_size(count - done, PAGES_ASKED);
		if (os_file_read_at(file, pages, asked * sizeof *pages, (at + done) * sizeof *pages) != (ssize_t)(asked * sizeof *pages))
			break;
		for (size_t i = 0; i < asked; i++)
			resident += (pages[i] & is_present) != 0 ? page : 0;
	}
	if (file >= 0)
		os_file_close(file);
	errno = saved;
	return resident;
}

// Each wish for huge pages may split a mapping, and each move: what was moved never becomes one with what lies beside it. With half of those that there
// may be we leave the rest to the program: looked at now and then, or told by who finds them used up.
static _Atomic bool scarce;

static bool may_split(void)
{
	static _Atomic uint32_t wishes;

	if ((atomic_fetch_add_explicit(&wishes, 1, memory_order_relaxed) + 1) % WISHES_A_LOOK == 0 &&
	    !os_is_shut_in())
		atomic_store_explicit(&scarce, os_maps_are_scarce(), memory_order_relaxed);
	return !atomic_load_explicit(&scarce, memory_order_relaxed);
}

static _Atomic bool asked; // for huge pages or, where the system gives them unasked, for small ones

// What nobody asked for is not taken back: a mapping that was advised against does not become one with what is mapped beside it later.
void os_pages_huge(void *address, size_t size, bool wanted)
{
	int saved = errno; // a wish

	if (wanted && !atomic_load_explicit(&asked, memory_order_relaxed))
		atomic_store_explicit(&asked, true, memory_order_relaxed);
	if (wanted ? may_split() : atomic_load_explicit(&asked, memory_order_relaxed))
		madvise(address, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	errno = saved;
}

// Where the setting begins with "[always]", read once, and in no process that is shut in. Elsewhere nothing is to be gained, and what was advised
// against has a mapping of its own beside what was not.
static bool gives_huge_unasked(void)
{
	static _Atomic uint64_t known;
	uint64_t text = atomic_load_explicit(&known, memory_order_relaxed), always;
	long file;

	memcpy(&always, "[always]", sizeof always);
	if (text == 0 && !os_is_shut_in()) {
		file = os_system_call(SYS_openat, AT_FDCWD, "/sys/kernel/mm/transparent_hugepage/enabled", O_RDONLY | O_CLOEXEC);
		text = 1;
		os_system_call(SYS_read, file, &text, sizeof text);
		os_system_call(SYS_close, file);
		atomic_store_explicit(&known, text, memory_order_relaxed);
	}
	return text == always;
}

COLD void os_pages_small(void *address, size_t size)
{
	int saved = errno; // a wish

	if (gives_huge_unasked()) {
		atomic_store_explicit(&asked, true, memory_order_relaxed);
		madvise(address, size, MADV_NOHUGEPAGE);
	}
	errno = saved;
}

void os_pages_join(void *address, size_t size)
{
	atomic_store_explicit(&scarce, true, memory_order_relaxed);
	os_pages_huge(address, size, false);
}

bool os_pages_map_at(void *address, size_t size)
{
	bool mapped = map_exactly(address, size, READ_WRITE);

	if (mapped && UNLIKELY(atomic_load_explicit(&scarce, memory_order_relaxed)))
		os_pages_huge(address, size, false); // it becomes one mapping with what lies beside it
	return mapped;
}

// The system call moves the page tables and leaves zero pages behind (Linux 5.7). Many kernels refuse a range of more than one
// mapping, and may have unmapped the target before they look; others (6.17) move one mapping after the other up to the one that they refuse.
static bool move_piece(char *from, char *to, size_t size)
{
	return mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) != MAP_FAILED;
}

static COLD bool is_zero(const char *bytes, size_t size)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
}

// To what was zero before, which stays as sparse as it was.
static COLD void copy_filled(char *to, const char *from, size_t size)
{
	size_t page = os_page_size();

	for (size_t at = 0; at < size; at += page)
		if (!is_zero(from + at, page))
			memcpy(to + at, from + at, page);
}

// What moved before the rest was refused; the target had been zero.
static COLD void take_back(char *from, const char *to, size_t size)
{
	size_t page = os_page_size();

	for (size_t at = 0; at < size; at += page)
		if (is_mapped(to + at, page))
			copy_filled(from + at, to + at, page);
}

static void clear(char *address, size_t size)
{
	if (!os_pages_purge(address, size))
		memset(address, 0, size);
}

// Where no other mapping may be made (vm.max_map_count) the target still is what it was; locked pages are not given back.
static bool copy_piece(char *from, char *to, size_t size)
{
	if (!remap_fresh(to, size) && !is_mapped(to, size))
		return false;
	memcpy(to, from, size);
	clear(from, size);
	return true;
}

// Some emulators forget that there are pages left behind (qemu-user), and take a touch of them for a fault. The kernel looks at
// the file before it looks at the bytes; they look at the bytes first.
static bool moves_leave_pages(void)
{
	static _Atomic int known; // 0 not tried, 1 they do, 2 they do not
	int answer = atomic_load_explicit(&known, memory_order_relaxed);
	size_t page = os_page_size();
	int saved = errno;

	if (answer == 0) {
		char *probe = map(NULL, 2 * page, READ_WRITE, PRIVATE);

		if (probe == NULL)
			return false;
		*probe = 1;
		answer = move_piece(probe, probe + page, page) && os_system_call(SYS_write, -1, probe, 1) < 0 && errno == EBADF ? 1 : 2;
		munmap(probe, 2 * page);
		atomic_store_explicit(&known, answer, memory_order_relaxed);
		errno = saved;
	}
	return answer == 1;
}

// In pieces between the boundaries at which we ourselves split mappings (os_pages_huge).
static enum os_move move(void *from, void *to, size_t size)
{
	if (!moves_leave_pages() || !os_pages_purge(to, size))
		return OS_NOT_MOVED;
	if (UNLIKELY(!may_split())) {
		copy_filled(to, from, size);
		clear(from, size);
		return OS_MOVED;
	}
	for (size_t done = 0, piece; done < size; done += piece) {
		char *source = (char *)from + done, *target = (char *)to + done;

		piece = min_size(PIECE - (uintptr_t)source % PIECE, size - done);
		if (move_piece(source, target, piece))
			continue;
		take_back(source, target, piece);
		if (done == 0)
			return remap_fresh(target, piece) ? OS_NOT_MOVED : OS_TARGET_LOST;
		ALWAYS(copy_piece(source, target, piece)); // half of it has moved: there is no way back
	}
	return OS_MOVED;
}

// Where pages are not moved the object is copied, and all went well.
enum os_move os_pages_move(void *from, void *to, size_t size)
{
	int saved = errno;
	enum os_move moved = move(from, to, size);

	errno = saved;
	return moved;
}

size_t os_memory_bytes(void)
{
	struct sysinfo info;

	return os_system_call(SYS_sysinfo, &info) == 0 ? (size_t)info.totalram * info.mem_unit : 0;
}

size_t os_address_space_limit(void)
{
	struct rlimit limit;

	if (os_system_call(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	return limit.rlim_cur;
}

size_t os_peak_resident_bytes(void)
{
	struct rusage usage;

	return os_system_call(SYS_getrusage, RUSAGE_SELF, &usage) == 0 ? (size_t)usage.ru_maxrss * 1024 : 0;
}

// The numbers of pages: of address space, resident, and others.
static size_t statm(unsigned field)
{
	char text[128];
	const char *at = text;

	if (os_file_read("/proc/thread-self/statm", text, sizeof text) <= 0)
		return 0;
	while (field-- > 0) {
		number_take(&at, 10);
		at += *at == ' ';
	}
	return number_take(&at, 10) * os_page_size();
}

size_t os_address_space(void)
{
	return statm(0);
}

size_t os_resident_bytes(void)
{
	return statm(1);
}
