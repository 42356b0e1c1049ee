// Programs and libraries by address: the loader's own table, or /proc/self/maps and the ELF header in memory.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/module.h"

#include <elf.h>
#include <string.h>

#include "os/areas.h"
#include "os/memory.h"
#include "os/sandbox.h"

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

enum { MOST_HEADERS = 64 };

// Where the file begins whose mapping has the address: at its last mapping of offset 0.
static uintptr_t image_of(uintptr_t address, bool *told)
{
	struct os_areas areas;
	struct os_area area, image = { 0 };

	*told = !os_is_shut_in() && os_areas_begin_places(&areas);
	if (!*told)
		return 0;
	while (os_areas_next(&areas, &area)) {
		if (area.offset == 0 || area.inode != image.inode)
			image = area;
		if (area.end > address)
			break;
	}
	os_areas_end(&areas);
	return area.start <= address && address < area.end && image.offset == 0 ? image.start : 0;
}

static bool read_headers(uintptr_t image, struct os_module *module, bool *told)
{
	Elf64_Ehdr file;
	Elf64_Phdr header;
	uintptr_t bias = 0;
	bool has_bias = false;

	*told = os_memory_peek(&file, (const void *)image, sizeof file);
	if (!*told || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 || file.e_phentsize != sizeof header || file.e_phnum > MOST_HEADERS)
		return false;
	*module = (struct os_module){ image, image, 0 };
	for (unsigned i = 0; i < file.e_phnum; i++) {
		*told = os_memory_peek(&header, (const void *)(image + file.e_phoff + i * sizeof header), sizeof header);
		if (!*told)
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

// Of a program with holes between its segments the loader tells one of these alone: of it, the one that has the tables is what is to be read.
static void turn_to_tables(loaders_find *find, struct found_object *found)
{
	struct found_object other;

	if (found->unwind_table >= found->start && found->unwind_table < found->end)
		return;
	if (find(found->unwind_table, &other) == 0 && other.link_map == found->link_map)
		*found = other;
}

bool os_module_find(uintptr_t address, struct os_module *module, bool *told)
{
	loaders_find *find = atomic_load_explicit(&loaders, memory_order_relaxed);
	struct found_object found;
	uintptr_t image;

	*told = true;
	if (find != NULL) {
		if (find((void *)address, &found) != 0)
			return false;
		turn_to_tables(find, &found);
		*module = (struct os_module){ (uintptr_t)found.start, (uintptr_t)found.end, (uintptr_t)found.unwind_table };
		return true;
	}
	image = image_of(address, told);
	return image != 0 && read_headers(image, module, told);
}
