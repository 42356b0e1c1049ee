// Build ids on Linux: a note in the segments of an ELF file. They are read as the lines of mappings are, from a file of the process: of a filter of system calls
// that lets those through no other is asked.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/build_id.h"

#include <elf.h>
#include <string.h>

#include "os/file.h"
#include "util/bits.h"
#include "util/format.h"

enum { MOST_HEADERS = 64, MOST_NOTES = 16, ID_MOST = 64 };

static bool read_at(int memory, void *to, size_t size, uintptr_t address)
{
	return os_file_read_at(memory, to, size, address) == (ssize_t)size;
}

static bool is_build_id(int memory, const Elf64_Nhdr *note, uintptr_t name_at)
{
	char name[sizeof ELF_NOTE_GNU];

	return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof name && note->n_descsz > 0 && note->n_descsz <= ID_MOST &&
	       read_at(memory, name, sizeof name, name_at) && memcmp(name, ELF_NOTE_GNU, sizeof name) == 0;
}

static bool write_id(int memory, struct text *line, uintptr_t at, size_t size)
{
	uint8_t bytes[ID_MOST];

	if (!read_at(memory, bytes, size, at))
		return false;
	for (size_t i = 0; i < size; i++)
		text_add(line, "%02x", bytes[i]);
	text_add(line, "\n");
	return true;
}

static bool find_in_notes(int memory, uintptr_t at, uintptr_t end, size_t align, struct text *line)
{
	Elf64_Nhdr note;

	for (unsigned i = 0; i < MOST_NOTES && at + sizeof note < end && read_at(memory, &note, sizeof note, at); i++) {
		uintptr_t name = at + sizeof note, value = at + round_up(sizeof note + note.n_namesz, align);

		if (is_build_id(memory, &note, name))
			return value + note.n_descsz <= end && write_id(memory, line, value, note.n_descsz);
		at = value + round_up(note.n_descsz, align);
	}
	return false;
}

static bool find_in_image(int memory, uintptr_t start, size_t size, struct text *line)
{
	Elf64_Ehdr file;
	Elf64_Phdr header;

	if (!read_at(memory, &file, sizeof file, start) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
	    file.e_phentsize != sizeof header || file.e_phoff > size)
		return false;
	for (unsigned i = 0; i < file.e_phnum && i < MOST_HEADERS; i++) {
		if (!read_at(memory, &header, sizeof header, start + file.e_phoff + i * sizeof header))
			return false;
		if (header.p_type == PT_NOTE && header.p_offset < size && header.p_filesz <= size - header.p_offset &&
		    find_in_notes(memory, start + header.p_offset, start + header.p_offset + header.p_filesz, header.p_align == 8 ? 8 : 4, line))
			return true;
	}
	return false;
}

size_t os_build_line(const struct os_areas *areas, const struct os_area *area, char line[OS_BUILD_LINE])
{
	struct text text = text_into(line, OS_BUILD_LINE);
	bool found;
	int memory;

	if (!area->is_code || area->inode != areas->image.inode || (memory = os_file_open_own("mem")) < 0)
		return 0;
	text_add(&text, "build %zx ", (size_t)area->start);
	found = find_in_image(memory, areas->image.start, areas->image.end - areas->image.start, &text);
	os_file_close(memory);
	if (!found)
		return 0;
	*text.at = '\0';
	return (size_t)(text.at - line);
}
