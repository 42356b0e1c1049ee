// The malloc family as this library declares it, including what some C libraries' headers leave out.
// glibc before 2.41 has no free_sized; musl has no mallinfo, mallopt, malloc_trim, malloc_info, valloc or pvalloc.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_TESTS_FAMILY_H
#define VMAG_TESTS_FAMILY_H

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

void free_sized(void *pointer, size_t size);
void free_aligned_sized(void *pointer, size_t alignment, size_t size);

#ifndef __GLIBC__
struct mallinfo {
    int arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo mallinfo(void);
struct mallinfo2 mallinfo2(void);
int mallopt(int parameter, int value);
int malloc_trim(size_t pad);
int malloc_info(int options, FILE *stream);
void malloc_stats(void);
void *valloc(size_t size);
void *pvalloc(size_t size);
void *reallocarray(void *pointer, size_t count, size_t size);
#define M_MMAP_THRESHOLD (-3)
#define M_TRIM_THRESHOLD (-1)
#define M_ARENA_MAX (-8)
#endif

#ifdef __cplusplus
}
#endif

#endif
