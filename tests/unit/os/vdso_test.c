// Functions of the kernel's library, found in copies of it: linked from address 0 on as it mostly is, and elsewhere, as before Linux 3.16 and under gVisor;
// and where there is none.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/vdso.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/auxv.h>

#include "../../check.h"

#if defined(__aarch64__)
#define NAME "__kernel_clock_gettime"
#else
#define NAME "__vdso_clock_gettime"
#endif

enum { COPY_BYTES = 64 * 1024 };

static _Alignas(8192) char copy[COPY_BYTES];
static bool is_copied;
static unsigned long told;

unsigned long __real_getauxval(unsigned long type);
unsigned long __wrap_getauxval(unsigned long type);

unsigned long __wrap_getauxval(unsigned long type) {
    if (type != AT_SYSINFO_EHDR || !is_copied)
        return __real_getauxval(type);
    if (told == 0)
        errno = ENOENT;
    return told;
}

static Elf64_Phdr *part(unsigned i) {
    Elf64_Ehdr *file = (void *)copy;

    return (Elf64_Phdr *)(void *)(copy + file->e_phoff) + i;
}

// As if it had been linked `by` further up.
static void link_at(uintptr_t by) {
    Elf64_Sym *symbols = NULL;
    char *names = NULL;
    Elf64_Ehdr *file = (void *)copy;

    for (unsigned i = 0; i < file->e_phnum; i++) {
        if (part(i)->p_type == PT_DYNAMIC)
            for (Elf64_Dyn *entry = (void *)(copy + part(i)->p_offset); entry->d_tag != DT_NULL; entry++) {
                if (entry->d_tag == DT_SYMTAB)
                    symbols = (void *)(copy + entry->d_un.d_ptr);
                if (entry->d_tag == DT_STRTAB)
                    names = copy + entry->d_un.d_ptr;
                if (entry->d_tag == DT_SYMTAB || entry->d_tag == DT_HASH || entry->d_tag == DT_GNU_HASH || entry->d_tag == DT_STRTAB)
                    entry->d_un.d_ptr += by;
            }
        part(i)->p_vaddr += by;
    }
    CHECK(symbols != NULL && names > (char *)symbols); // the names follow
    for (char *symbol = (char *)symbols; symbol + sizeof *symbols <= names; symbol += sizeof *symbols)
        ((Elf64_Sym *)(void *)symbol)->st_value += by;
}

// As Linux 6.11 has it on AArch64. False: this kernel's has no other table.
static bool take_old_hash(void) {
    Elf64_Dyn *old = NULL;
    bool has_new = false;

    for (unsigned i = 0; i < ((Elf64_Ehdr *)(void *)copy)->e_phnum; i++)
        if (part(i)->p_type == PT_DYNAMIC)
            for (Elf64_Dyn *entry = (void *)(copy + part(i)->p_offset); entry->d_tag != DT_NULL; entry++) {
                old = entry->d_tag == DT_HASH ? entry : old;
                has_new |= entry->d_tag == DT_GNU_HASH;
            }
    if (old != NULL && has_new)
        old->d_tag = DT_DEBUG;
    return has_new;
}

static void functions_are_found_by_new_hash(const char *library) {
    const char *function = os_vdso_function(NAME);

    memcpy(copy, library, part(0)->p_memsz);
    told = (uintptr_t)copy;
    is_copied = take_old_hash();
    if (is_copied) {
        CHECK(function != NULL);
        CHECK_EQ((char *)os_vdso_function(NAME) - copy, function - library);
        CHECK(os_vdso_function("no_such_function") == NULL);
    }
    is_copied = false;
}

static void functions_are_found(const char *library, uintptr_t by) {
    char *function = os_vdso_function(NAME);

    memcpy(copy, library, part(0)->p_memsz);
    link_at(by);
    told = (uintptr_t)copy;
    is_copied = true;
    CHECK(function == NULL || function > library);
    CHECK_EQ((char *)os_vdso_function(NAME) - copy, function == NULL ? -(intptr_t)copy : function - library);
    CHECK(os_vdso_function("no_such_function") == NULL);
    is_copied = false;
}

static void none_is_found_without_it(void) {
    told = 0;
    is_copied = true;
    errno = 3;
    CHECK(os_vdso_function(NAME) == NULL);
    CHECK_EQ(errno, 3);
    is_copied = false;
}

int main(void) {
    const char *library = (const char *)getauxval(AT_SYSINFO_EHDR);

    none_is_found_without_it();
    if (library == NULL)
        return SKIPPED;
    memcpy(copy, library, 4096);
    CHECK(part(0)->p_type == PT_LOAD && part(0)->p_offset == 0 && part(0)->p_memsz <= sizeof copy);
    if (part(0)->p_vaddr != 0)
        return SKIPPED;
    functions_are_found_by_new_hash(library);
    functions_are_found(library, 0);
    functions_are_found(library, 0xffffffffff700000);
    return 0;
}
