// Names from ELF symbol tables (64 bits): section headers, the table of symbols, its names.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/symbol.h"

#include <elf.h>
#include <string.h>

#include "os/file.h"
#include "os/sandbox.h"

enum { BATCH = 128 };

static bool read_at(int file, void *bytes, size_t size, uint64_t offset)
{
	return os_file_read_at(file, bytes, size, offset) == (ssize_t)size;
}

// The table of all symbols, and the section of its names.
static bool find_table(int file, const Elf64_Ehdr *head, Elf64_Shdr *table, Elf64_Shdr *names)
{
	for (unsigned i = 0; i < head->e_shnum; i++) {
		if (!read_at(file, table, sizeof *table, head->e_shoff + (uint64_t)i * sizeof *table))
			return false;
		if (table->sh_type == SHT_SYMTAB && table->sh_link < head->e_shnum)
			return read_at(file, names, sizeof *names, head->e_shoff + (uint64_t)table->sh_link * sizeof *names);
	}
	return false;
}

static bool find_symbol(int file, const Elf64_Shdr *table, uintptr_t address, Elf64_Sym *found)
{
	Elf64_Sym symbols[BATCH];
	size_t count = table->sh_size / sizeof *symbols;

	for (size_t done = 0; done < count;) {
		size_t batch = count - done < BATCH ? count - done : BATCH;

		if (!read_at(file, symbols, batch * sizeof *symbols, table->sh_offset + done * sizeof *symbols))
			return false;
		for (size_t i = 0; i < batch; i++)
			if (ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && address - symbols[i].st_value < symbols[i].st_size) {
				*found = symbols[i];
				return true;
			}
		done += batch;
	}
	return false;
}

static bool find_in(int file, uintptr_t address, uintptr_t loaded_at, char *name, size_t size, uintptr_t *offset)
{
	Elf64_Shdr table, names;
	Elf64_Ehdr head;
	Elf64_Sym symbol;
	ssize_t got;

	if (!read_at(file, &head, sizeof head, 0) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_shentsize != sizeof table)
		return false;
	if (head.e_type == ET_DYN)
		address -= loaded_at;
	if (!find_table(file, &head, &table, &names) || !find_symbol(file, &table, address, &symbol))
		return false;
	got = os_file_read_at(file, name, size - 1, names.sh_offset + symbol.st_name);
	if (got <= 0)
		return false;
	name[got] = '\0'; // the name itself ends earlier, with a zero of its own
	*offset = address - symbol.st_value;
	return name[0] != '\0';
}

bool os_symbol_find(const char *path, uintptr_t address, uintptr_t loaded_at, char *name, size_t size, uintptr_t *offset)
{
	int file = os_is_shut_in() ? -1 : os_file_open(path);
	bool found = file >= 0 && find_in(file, address, loaded_at, name, size, offset);

	if (file >= 0)
		os_file_close(file);
	return found;
}
