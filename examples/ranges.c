// Ranges: where in a file which record lies. A store keeps records of all sizes in one file; commands come on stdin:
//
//   put NAME BYTES     a record anywhere, at a multiple of 64 bytes
//   page NAME BYTES    one that lies within one page of 4 KiB: written by one sector write, or not at all (nocross)
//   bulk NAME BYTES    data at a multiple of 64 KiB, behind a header of 512 bytes that begins there (alignment and phase)
//   near NAME BYTES    one within the first 256 KiB, which are read at start (a limit)
//   drop NAME          the record goes; the file gets a hole, and shrinks when its end is not used
//   map                what lies where
//
// Two arenas: `offsets` are all offsets a file may have, in units of 1 MiB; `store` imports some of them whenever it has too
// little room, and import is what makes the file longer. When all records of a unit are gone, it goes back, and release makes the
// file shorter again. The first unit is the file's for ever, less a page for the file's own header.
//
//   cc ranges.c -lvmag && printf 'put a 5000\nmap\n' | ./a.out /tmp/store
// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vmag/vmem.h>

enum { RECORDS = 1000, NAME_BYTES = 32, GRAIN = 64, PAGE = 4096, BULK_ALIGN = 64 * 1024, BULK_HEADER = 512, NEAR = 256 * 1024 };
static const size_t unit = 1024 * 1024, longest = (size_t)1 << 40;

struct record {
	char name[NAME_BYTES]; // empty: no record
	uintptr_t at;
	size_t bytes;
};

static struct record records[RECORDS];
static vmag_vmem_t *offsets, *store;
static int file;

// ---- Import and release: the side effect is the length of the file.

static void note_end(void *end, void *at, size_t size)
{
	if ((uintptr_t)at + size > *(uintptr_t *)end)
		*(uintptr_t *)end = (uintptr_t)at + size;
}

static void set_length(void)
{
	uintptr_t end = unit;

	vmag_vmem_walk(offsets, VMAG_VMEM_ALLOC, note_end, &end);
	if (ftruncate(file, (off_t)end) != 0)
		perror("ranges: making the file shorter");
}

static void *grow(vmag_vmem_t *source, size_t size, int flags)
{
	// The smallest gap that is large enough: the file stays short.
	void *at = vmag_vmem_xalloc(source, size, 0, 0, 0, NULL, NULL, flags | VMAG_VM_BESTFIT);
	struct stat now;

	if (at != NULL && fstat(file, &now) == 0 && (uintptr_t)now.st_size < (uintptr_t)at + size &&
	    ftruncate(file, (off_t)((uintptr_t)at + size)) != 0) {
		vmag_vmem_xfree(source, at, size);
		return NULL;
	}
	return at;
}

static void shrink(vmag_vmem_t *source, void *at, size_t size)
{
	vmag_vmem_xfree(source, at, size);
	set_length();
}

// ---- Records.

static struct record *find(const char *name)
{
	for (size_t i = 0; i < RECORDS; i++)
		if (strcmp(records[i].name, name) == 0)
			return &records[i];
	return NULL;
}

// Writes the name over and over, as far as the record goes.
static int write_record(const struct record *record)
{
	char block[PAGE];
	size_t length = strlen(record->name), done = 0;

	while (done < record->bytes) {
		size_t step = record->bytes - done < sizeof block ? record->bytes - done : sizeof block;

		for (size_t i = 0; i < step; i++)
			block[i] = record->name[(done + i) % length];
		if (pwrite(file, block, step, (off_t)(record->at + done)) != (ssize_t)step)
			return -1;
		done += step;
	}
	return 0;
}

static int is_intact(const struct record *record)
{
	size_t length = strlen(record->name);
	char *contents = malloc(record->bytes);
	int intact = contents != NULL && pread(file, contents, record->bytes, (off_t)record->at) == (ssize_t)record->bytes;

	for (size_t i = 0; intact && i < record->bytes; i++)
		intact = contents[i] == record->name[i % length];
	free(contents);
	return intact;
}

struct kind {
	const char *command;
	size_t align, phase, nocross, limit;
};

static const struct kind kinds[] = {
	{ "put", 0, 0, 0, 0 },
	{ "page", 0, 0, PAGE, 0 },
	{ "bulk", BULK_ALIGN, BULK_HEADER, 0, 0 },
	{ "near", 0, 0, 0, NEAR },
};

static void put(const struct kind *kind, const char *name, size_t bytes)
{
	struct record *record = find("");
	void *at;

	if (bytes == 0 || record == NULL || find(name) != NULL || (kind->nocross != 0 && bytes > kind->nocross)) {
		printf("%s: cannot be\n", name);
		return;
	}
	at = vmag_vmem_xalloc(store, bytes, kind->align, kind->phase, kind->nocross, NULL, (void *)kind->limit, VMAG_VM_NOSLEEP);
	if (at == NULL) {
		printf("%s: no room\n", name);
		return;
	}
	snprintf(record->name, NAME_BYTES, "%s", name);
	record->at = (uintptr_t)at;
	record->bytes = bytes;
	if (write_record(record) != 0)
		perror("ranges: writing");
	printf("%s: %zu bytes at %zu\n", name, bytes, (size_t)record->at);
}

static void drop(struct record *record)
{
	printf("%s: %s\n", record->name, is_intact(record) ? "intact" : "DAMAGED");
	fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)record->at, (off_t)record->bytes);
	vmag_vmem_xfree(store, (void *)record->at, record->bytes);
	record->name[0] = '\0';
}

// ---- The map: every byte of the file's span is in one segment.

static void show(void *what, void *at, size_t size)
{
	const struct record *record = NULL;

	for (size_t i = 0; i < RECORDS && record == NULL; i++)
		if (records[i].name[0] != '\0' && records[i].at == (uintptr_t)at)
			record = &records[i];
	printf("  %10zu %9zu %s\n", (size_t)at, size, record != NULL ? record->name : (const char *)what);
}

static void map(void)
{
	struct stat now;

	vmag_vmem_walk(store, VMAG_VMEM_ALLOC | VMAG_VMEM_FREE, show, "-");
	if (fstat(file, &now) == 0)
		printf("  the file has %lld bytes, %zu of them in records\n", (long long)now.st_size,
		       vmag_vmem_size(store, VMAG_VMEM_ALLOC));
}

static void obey(const char *command, const char *name, size_t bytes)
{
	struct record *record;

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(command, kinds[i].command) == 0 && name[0] != '\0') {
			put(&kinds[i], name, bytes);
			return;
		}
	if (strcmp(command, "drop") == 0 && name[0] != '\0' && (record = find(name)) != NULL)
		drop(record);
	else if (strcmp(command, "map") == 0)
		map();
	else
		fprintf(stderr, "ranges: what is '%s'? put, page, bulk, near NAME BYTES; drop NAME; map\n", command);
}

int main(int argc, char **argv)
{
	char line[128], command[16], name[NAME_BYTES];

	file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	if (file < 0 || ftruncate(file, (off_t)unit) != 0) {
		perror(argc == 2 ? argv[1] : "usage: ranges FILE");
		return 1;
	}
	offsets = vmag_vmem_create("offsets", (void *)unit, longest - unit, unit, NULL, NULL, NULL, 0, VMAG_VM_NOSLEEP);
	store = offsets == NULL ? NULL : vmag_vmem_create("store", (void *)PAGE, unit - PAGE, GRAIN, grow, shrink, offsets, 0, VMAG_VM_NOSLEEP);
	if (store == NULL) {
		perror("ranges");
		return 1;
	}
	while (fgets(line, sizeof line, stdin) != NULL) {
		unsigned long bytes = 0;

		name[0] = '\0';
		if (sscanf(line, "%15s %31s %lu", command, name, &bytes) >= 1)
			obey(command, name, bytes);
	}
	for (size_t i = 0; i < RECORDS; i++)
		if (records[i].name[0] != '\0')
			drop(&records[i]);
	vmag_vmem_destroy(store);
	vmag_vmem_destroy(offsets);
	return 0;
}
