// Names in the kernel's library (vdso(7)), whose ELF header the auxiliary vector tells. It is not relocated: its tables tell addresses as it was linked,
// most often from 0 on, but not before Linux 3.16 and not under gVisor.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/vdso.h"

#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "util/bits.h"

struct tables {
	const Elf64_Sym *symbols;
	const char *names;
	const uint32_t *hash; // its second word is the number of symbols
};

static void note_table(struct tables *tables, Elf64_Sxword tag, const void *table)
{
	if (tag == DT_SYMTAB)
		tables->symbols = table;
	else if (tag == DT_STRTAB)
		tables->names = table;
	else if (tag == DT_HASH)
		tables->hash = table;
}

// Inlined: what a start runs stays together.
static inline __attribute__((always_inline)) const Elf64_Phdr *part_of(const Elf64_Ehdr *file, Elf64_Word type)
{
	const Elf64_Phdr *parts = (const void *)((const char *)file + file->e_phoff);

	for (unsigned i = 0; i < file->e_phnum; i++)
		if (parts[i].p_type == type)
			return &parts[i];
	return NULL;
}

// `apart`: how far from where it was linked the library lies.
static struct tables tables_of(const Elf64_Ehdr *file, uintptr_t apart)
{
	const Elf64_Phdr *dynamic = part_of(file, PT_DYNAMIC);
	struct tables tables = { NULL, NULL, NULL };

	if (dynamic == NULL)
		return tables;
	for (const Elf64_Dyn *entry = (const void *)(apart + dynamic->p_vaddr); entry->d_tag != DT_NULL; entry++)
		note_table(&tables, entry->d_tag, (const void *)(apart + entry->d_un.d_ptr));
	return tables;
}

// Where the newer table of hashes is the only one, as on AArch64 with Linux 6.11 and some after it. Behind four words and a filter of as many longer ones as the third
// says it has each bucket's first symbol, then a word a symbol, from the first on that is in a bucket; a bucket's last one is odd. 0: there is no such table either.
static COLD __attribute__((noinline)) uint32_t count_by_gnu_hash(const Elf64_Ehdr *file, uintptr_t apart)
{
	const uint32_t *hash = NULL, *bucket, *word;
	uint32_t last = 0;

	for (const Elf64_Dyn *entry = (const void *)(apart + part_of(file, PT_DYNAMIC)->p_vaddr); entry->d_tag != DT_NULL; entry++)
		if (entry->d_tag == DT_GNU_HASH)
			hash = (const void *)(apart + entry->d_un.d_ptr);
	if (hash == NULL)
		return 0;
	bucket = hash + 4 + 2 * hash[2];
	word = bucket + hash[0];
	for (uint32_t i = 0; i < hash[0]; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < hash[1])
		return hash[1];
	while ((word[last - hash[1]] & 1) == 0)
		last++;
	return last + 1;
}

// Keeps errno, which getauxval sets where there is no such library.
static const Elf64_Ehdr *kernel_library(void)
{
	int saved = errno;
	const Elf64_Ehdr *file = (const void *)getauxval(AT_SYSINFO_EHDR);

	errno = saved;
	return file;
}

void *os_vdso_function(const char *name)
{
	const Elf64_Ehdr *file = kernel_library();
	const Elf64_Phdr *loaded = file == NULL ? NULL : part_of(file, PT_LOAD);
	struct tables tables;
	uintptr_t apart;
	uint32_t count;

	if (loaded == NULL)
		return NULL;
	apart = (uintptr_t)file + loaded->p_offset - loaded->p_vaddr;
	tables = tables_of(file, apart);
	if (tables.symbols == NULL) // else there are names, too
		return NULL;
	count = LIKELY(tables.hash != NULL) ? tables.hash[1] : count_by_gnu_hash(file, apart);
	for (uint32_t i = 0; i < count; i++) {
		const Elf64_Sym *symbol = &tables.symbols[i];

		if (symbol->st_shndx != SHN_UNDEF && strcmp(tables.names + symbol->st_name, name) == 0)
			return (void *)(apart + symbol->st_value);
	}
	return NULL;
}
