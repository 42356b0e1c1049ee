// Build ids on Linux: a note in the segments of an ELF file.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/build_id.h"

#include <elf.h>
#include <string.h>

#include "os/memory.h"
#include "util/bits.h"
#include "util/format.h"

enum { MOST_HEADERS = 64, MOST_NOTES = 16, ID_MOST = 64 };

static bool is_build_id(const Elf64_Nhdr *note, uintptr_t name_at)
{
	char name[sizeof ELF_NOTE_GNU];

	return note->n_type == NT_GNU_BUILD_ID && note->n_namesz == sizeof name && note->n_descsz > 0 && note->n_descsz <= ID_MOST &&
	       os_memory_peek(name, (const void *)name_at, sizeof name) && memcmp(name, ELF_NOTE_GNU, sizeof name) == 0;
}

static bool write_id(struct text *line, uintptr_t at, size_t size)
{
	uint8_t bytes[ID_MOST];

	if (!os_memory_peek(bytes, (const void *)at, size))
		return false;
	for (size_t i = 0; i < size; i++)
		text_add(line, "%02x", bytes[i]);
	text_add(line, "\n");
	return true;
}

static bool find_in_notes(uintptr_t at, uintptr_t end, size_t align, struct text *line)
{
	Elf64_Nhdr note;

	for (unsigned i = 0; i < MOST_NOTES && at + sizeof note < end && os_memory_peek(&note, (const void *)at, sizeof note); i++) {
		uintptr_t name = at + sizeof note, value = at + round_up(sizeof note + note.n_namesz, align);

		if (is_build_id(&note, name))
			return value + note.n_descsz <= end && write_id(line, value, note.n_descsz);
		at = value + round_up(note.n_descsz, align);
	}
	return false;
}

static bool find_in_image(uintptr_t start, size_t size, struct text *line)
{
	Elf64_Ehdr file;
	Elf64_Phdr header;

	if (!os_memory_peek(&file, (const void *)start, sizeof file) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
	    file.e_phentsize != sizeof header || file.e_phoff > size)
		return false;
	for (unsigned i = 0; i < file.e_phnum && i < MOST_HEADERS; i++) {
		if (!os_memory_peek(&header, (const void *)(start + file.e_phoff + i * sizeof header), sizeof header))
			return false;
		if (header.p_type == PT_NOTE && header.p_offset < size && header.p_filesz <= size - header.p_offset &&
		    find_in_notes(start + header.p_offset, start + header.p_offset + header.p_filesz, header.p_align == 8 ? 8 : 4, line))
			return true;
	}
	return false;
}

size_t os_build_line(const struct os_areas *areas, const struct os_area *area, char line[OS_BUILD_LINE])
{
	struct text text = text_into(line, OS_BUILD_LINE);

	if (!area->is_code || area->inode != areas->image.inode)
		return 0;
	text_add(&text, "build %zx ", (size_t)area->start);
	if (!find_in_image(areas->image.start, areas->image.end - areas->image.start, &text))
		return 0;
	*text.at = '\0';
	return (size_t)(text.at - line);
}
