// Programs and libraries by address: the loader's own table, or /proc/self/maps and the ELF header in memory.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/module.h"

#include <elf.h>
#include <string.h>

#include "os/file.h"
#include "os/memory.h"

_Atomic uint16_t os_modules_generation = 1;

void os_modules_change(void)
{
	uint16_t now = atomic_load(&os_modules_generation), next;

	do
		next = (uint16_t)(now == UINT16_MAX ? 1 : now + 1);
	while (!atomic_compare_exchange_weak(&os_modules_generation, &now, next));
}

// glibc's struct dl_find_object, of which headers before 2.35 and musl's know nothing.
struct found_object {
	unsigned long long flags;
	void *start, *end, *link_map, *unwind_table;
	unsigned long long reserved[7];
};
typedef int loaders_find(void *address, struct found_object *found);
static loaders_find *_Atomic loaders; // NULL: none, or not known yet

void os_modules_ask_loader(void *dl_find_object)
{
	loaders_find *find;

	*(void **)&find = dl_find_object;
	atomic_store_explicit(&loaders, find, memory_order_relaxed);
}

enum { CHUNK = 2048, MOST_HEADERS = 64 };

// A mapping, as a line of the file tells it.
struct mapping {
	uintptr_t start, end, offset;
	uint64_t inode;
};

struct maps {
	int file;
	uint64_t offset;
	size_t at, length; // in bytes
	char bytes[CHUNK];
};

// −1 at the end.
static int next_byte(struct maps *maps)
{
	if (maps->at == maps->length) {
		ssize_t got = os_file_read_at(maps->file, maps->bytes, sizeof maps->bytes, maps->offset);

		if (got <= 0)
			return -1;
		maps->offset += (uint64_t)got;
		maps->length = (size_t)got;
		maps->at = 0;
	}
	return (unsigned char)maps->bytes[maps->at++];
}

// A number and the byte behind it.
static uint64_t number(struct maps *maps, unsigned base)
{
	uint64_t value = 0;

	for (;;) {
		int byte = next_byte(maps);
		unsigned digit = (unsigned)(byte >= 'a' ? byte - 'a' + 10 : byte - '0');

		if (digit >= base)
			return value;
		value = value * base + digit;
	}
}

static void pass(struct maps *maps, int until)
{
	int byte;

	while ((byte = next_byte(maps)) >= 0 && byte != until)
		;
}

// "start-end rwxp offset device inode   path"
static bool next_mapping(struct maps *maps, struct mapping *mapping)
{
	mapping->start = number(maps, 16);
	mapping->end = number(maps, 16);
	pass(maps, ' ');
	mapping->offset = number(maps, 16);
	pass(maps, ' ');
	mapping->inode = number(maps, 10);
	maps->at -= maps->at > 0; // the line may end right behind it
	pass(maps, '\n');
	return mapping->end != 0;
}

// Where the file begins whose mapping has the address: at its last mapping of offset 0.
static uintptr_t image_of(uintptr_t address)
{
	struct maps maps = { .file = os_file_open("/proc/self/maps") };
	struct mapping mapping, image = { 0 };

	if (maps.file < 0)
		return 0;
	do {
		if (!next_mapping(&maps, &mapping))
			break;
		if (mapping.offset == 0 || mapping.inode != image.inode)
			image = mapping;
	} while (mapping.end <= address);
	os_file_close(maps.file);
	return mapping.start <= address && address < mapping.end && image.offset == 0 ? image.start : 0;
}

static bool read_headers(uintptr_t image, struct os_module *module)
{
	Elf64_Ehdr file;
	Elf64_Phdr header;
	uintptr_t bias = 0;
	bool has_bias = false;

	if (!os_memory_peek(&file, (const void *)image, sizeof file) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
	    file.e_phentsize != sizeof header || file.e_phnum > MOST_HEADERS)
		return false;
	*module = (struct os_module){ image, image, 0 };
	for (unsigned i = 0; i < file.e_phnum; i++) {
		if (!os_memory_peek(&header, (const void *)(image + file.e_phoff + i * sizeof header), sizeof header))
			return false;
		if (header.p_type == PT_LOAD && !has_bias) {
			bias = image - (header.p_vaddr - header.p_offset);
			has_bias = true;
		}
		if (header.p_type == PT_LOAD && bias + header.p_vaddr + header.p_memsz > module->end)
			module->end = bias + header.p_vaddr + header.p_memsz;
		if (header.p_type == PT_GNU_EH_FRAME)
			module->unwind_table = header.p_vaddr;
	}
	module->unwind_table += module->unwind_table == 0 ? 0 : bias;
	return true;
}

bool os_module_find(uintptr_t address, struct os_module *module)
{
	loaders_find *find = atomic_load_explicit(&loaders, memory_order_relaxed);
	struct found_object found;
	uintptr_t image;

	if (find != NULL) {
		if (find((void *)address, &found) != 0)
			return false;
		*module = (struct os_module){ (uintptr_t)found.start, (uintptr_t)found.end, (uintptr_t)found.unwind_table };
		return true;
	}
	image = image_of(address);
	return image != 0 && read_headers(image, module);
}
