// Composed arenas, as in Appendix A of "Magazines and Vmem": a range of addresses → pages that are mapped when they are
// imported → a cache of constructed objects on top. A server keeps its connections in it: all of them in one range of
// addresses of its own choice, each with its lock, its condition and its buffer ready.
//
//   address_space   [base, base + 1 GiB), reserved, nothing mapped                        vmag_vmem_create
//        │ vmag_vmem_alloc, vmag_vmem_free
//   addresses       caches segments of up to 8 pages                                      qcache_max
//        │ pages_map, pages_unmap: addresses backed by memory (the paper's segkmem_alloc)
//   pages           mapped pages
//        │ a slab at a time
//   connections     objects, constructed once, used again and again                       vmag_cache_create
//
//   cc composed.c -lvmag -lpthread && ./a.out
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vmag/cache.h>
#include <vmag/vmem.h>

enum { BUFFER_BYTES = 2048, ROUNDS = 2000, AT_ONCE = 50 };
static const size_t space_bytes = (size_t)1 << 30;

// ---- The import function with a side effect: what it returns is mapped.

static void *pages_map(vmag_vmem_t *addresses, size_t size, int flags)
{
	void *pages = vmag_vmem_alloc(addresses, size, flags);

	if (pages != NULL && mprotect(pages, size, PROT_READ | PROT_WRITE) != 0) {
		vmag_vmem_free(addresses, pages, size);
		return NULL;
	}
	return pages;
}

static void pages_unmap(vmag_vmem_t *addresses, void *pages, size_t size)
{
	madvise(pages, size, MADV_DONTNEED);
	mprotect(pages, size, PROT_NONE);
	vmag_vmem_free(addresses, pages, size);
}

// ---- The objects: expensive to make, cheap to use again.

struct connection {
	pthread_mutex_t lock;
	pthread_cond_t ready;
	char *buffer;
	size_t used;
};

static unsigned long constructed, destructed;

static int connection_construct(void *object, void *argument, int flags)
{
	struct connection *connection = object;

	(void)argument, (void)flags;
	connection->buffer = malloc(BUFFER_BYTES);
	if (connection->buffer == NULL)
		return -1;
	pthread_mutex_init(&connection->lock, NULL);
	pthread_cond_init(&connection->ready, NULL);
	connection->used = 0;
	constructed++;
	return 0;
}

static void connection_destruct(void *object, void *argument)
{
	struct connection *connection = object;

	(void)argument;
	pthread_cond_destroy(&connection->ready);
	pthread_mutex_destroy(&connection->lock);
	free(connection->buffer);
	destructed++;
}

static void serve(struct connection *connection, int number)
{
	pthread_mutex_lock(&connection->lock);
	connection->used += (size_t)snprintf(connection->buffer, BUFFER_BYTES, "connection %d", number);
	pthread_cond_signal(&connection->ready);
	pthread_mutex_unlock(&connection->lock);
}

// ---- Objects go back as they were constructed: unlocked, and empty.

static void hang_up(vmag_cache_t *connections, struct connection *connection)
{
	connection->used = 0;
	vmag_cache_free(connections, connection);
}

static int fail(const char *what)
{
	fprintf(stderr, "composed: %s failed\n", what);
	return 1;
}

int main(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *base = mmap(NULL, space_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct connection *open_now[AT_ONCE];
	struct vmag_cache_stats stats;

	if (base == MAP_FAILED)
		return fail("reserving addresses");
	vmag_vmem_t *address_space = vmag_vmem_create("address_space", base, space_bytes, page, NULL, NULL, NULL, 0, VMAG_VM_SLEEP);
	vmag_vmem_t *addresses = vmag_vmem_create("addresses", NULL, 0, page, vmag_vmem_alloc, vmag_vmem_free, address_space, 8 * page,
						  VMAG_VM_SLEEP);
	vmag_vmem_t *pages = vmag_vmem_create("pages", NULL, 0, page, pages_map, pages_unmap, addresses, 0, VMAG_VM_SLEEP);
	vmag_cache_t *connections = vmag_cache_create("connection", sizeof(struct connection), 64, connection_construct,
						      connection_destruct, NULL, NULL, pages, 0);
	if (address_space == NULL || addresses == NULL || pages == NULL || connections == NULL)
		return fail("creating the arenas");

	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < AT_ONCE; i++) {
			open_now[i] = vmag_cache_alloc(connections, VMAG_NOSLEEP);
			if (open_now[i] == NULL)
				return fail("opening a connection");
			if ((size_t)((char *)open_now[i] - (char *)base) >= space_bytes)
				return fail("staying in the range");
			serve(open_now[i], round * AT_ONCE + i);
		}
		for (int i = 0; i < AT_ONCE; i++)
			hang_up(connections, open_now[i]);
	}
	vmag_cache_stats(connections, &stats, sizeof stats);
	printf("%d connections were served by %lu constructed ones, in %zu slabs of %zu bytes\n", ROUNDS * AT_ONCE, constructed,
	       stats.slabs, stats.slab_bytes);
	printf("in use: %zu bytes of pages, %zu bytes of addresses\n", vmag_vmem_size(pages, VMAG_VMEM_ALLOC),
	       vmag_vmem_size(address_space, VMAG_VMEM_ALLOC));
	if (constructed > 2 * AT_ONCE)
		return fail("using constructed objects again");

	vmag_cache_destroy(connections);
	if (constructed != destructed || vmag_vmem_size(pages, VMAG_VMEM_ALLOC) != 0)
		return fail("giving everything back");
	vmag_vmem_destroy(pages);
	vmag_vmem_destroy(addresses);
	vmag_vmem_destroy(address_space);
	munmap(base, space_bytes);
	return 0;
}
