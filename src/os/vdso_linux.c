// Names in the kernel's library (vdso(7)), whose ELF header the auxiliary vector tells. It is not relocated: what its tables tell are distances.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/vdso.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

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

static struct tables tables_of(const char *base, const Elf64_Ehdr *file)
{
	const Elf64_Phdr *headers = (const void *)(base + file->e_phoff);
	struct tables tables = { NULL, NULL, NULL };

	for (unsigned i = 0; i < file->e_phnum; i++)
		if (headers[i].p_type == PT_DYNAMIC)
			for (const Elf64_Dyn *entry = (const void *)(base + headers[i].p_offset); entry->d_tag != DT_NULL; entry++)
				note_table(&tables, entry->d_tag, base + entry->d_un.d_ptr);
	return tables;
}

void *os_vdso_function(const char *name)
{
	const char *base = (const char *)getauxval(AT_SYSINFO_EHDR);
	struct tables tables;

	if (base == NULL)
		return NULL;
	tables = tables_of(base, (const void *)base);
	if (tables.symbols == NULL || tables.names == NULL || tables.hash == NULL)
		return NULL;
	for (uint32_t i = 0; i < tables.hash[1]; i++) {
		const Elf64_Sym *symbol = &tables.symbols[i];

		if (symbol->st_shndx != SHN_UNDEF && strcmp(tables.names + symbol->st_name, name) == 0)
			return (void *)(base + symbol->st_value);
	}
	return NULL;
}
