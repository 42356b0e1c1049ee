// vmem_* by libumem's names, before any other call of the library: create, import, constraints, walk, sizes, the heap's arena.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <sys/vmem.h>

#include "../check.h"

static int imports, releases, import_flags;

static void *import(vmem_t *source, size_t size, int flags) {
    imports++;
    import_flags = flags;
    return vmem_alloc(source, size, flags);
}

static void release(vmem_t *source, void *start, size_t size) {
    releases++;
    vmem_free(source, start, size);
}

static void add_up(void *argument, void *start, size_t size) {
    CHECK(start != NULL);
    *(size_t *)argument += size;
}

static void test_span(void) {
    vmem_t *arena = vmem_create("numbers", (void *)100, 100, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
    size_t sum = 0;
    void *first, *second;
    CHECK(arena != NULL);
    first = vmem_alloc(arena, 30, VM_NOSLEEP | VM_BESTFIT);
    second = vmem_alloc(arena, 20, VM_NOSLEEP | VM_NEXTFIT);
    CHECK(first != NULL && second != NULL);
    CHECK_EQ(vmem_size(arena, VMEM_ALLOC), 50);
    CHECK_EQ(vmem_size(arena, VMEM_FREE), 50);
    CHECK_EQ(vmem_size(arena, VMEM_ALLOC | VMEM_FREE), 100);
    CHECK(vmem_contains(arena, (void *)100, 100) && !vmem_contains(arena, (void *)199, 2));
    vmem_walk(arena, VMEM_ALLOC, add_up, &sum);
    CHECK_EQ(sum, 50);
    vmem_walk(arena, VMEM_ALLOC | VMEM_FREE | (int)VMEM_REENTRANT, add_up, &sum);
    CHECK_EQ(sum, 150);
    CHECK(vmem_alloc(arena, 60, VM_NOSLEEP) == NULL);
    CHECK(vmem_add(arena, (void *)1000, 60, VM_NOSLEEP) == (void *)1000);
    CHECK(vmem_alloc(arena, 60, VM_NOSLEEP) == (void *)1000);
    vmem_free(arena, (void *)1000, 60);
    vmem_free(arena, first, 30);
    vmem_free(arena, second, 20);
    CHECK_EQ(vmem_size(arena, VMEM_ALLOC), 0);
    vmem_destroy(arena);
}

// The paper's example of constraints, whose right answers are 200 and 264.
static void test_constraints(void) {
    vmem_t *arena = vmem_create("constrained", (void *)1, 1000, 1, NULL, NULL, NULL, 0, VM_NOSLEEP);
    uintptr_t place = (uintptr_t)vmem_xalloc(arena, 20, 64, 8, 0, (void *)200, (void *)300, VM_NOSLEEP);
    CHECK(place == 200 || place == 264);
    vmem_xfree(arena, (void *)place, 20);
    vmem_destroy(arena);
}

static void test_import(void) {
    vmem_t *source = vmem_create("source", (void *)4096, 1 << 20, 4096, NULL, NULL, NULL, 0, VM_NOSLEEP);
    vmem_t *arena = vmem_create("importer", NULL, 0, 1, import, release, source, 8, VM_NOSLEEP);
    void *piece = vmem_alloc(arena, 100, VM_NOSLEEP), *small = vmem_alloc(arena, 3, VM_NOSLEEP);
    CHECK(piece != NULL && small != NULL && imports > 0);
    CHECK(vmem_size(source, VMEM_ALLOC) >= 4096);
    vmem_free(arena, piece, 100);
    vmem_free(arena, small, 3);
    CHECK_EQ(import_flags & VM_PUSHPAGE, 0);
    vmem_free(arena, vmem_alloc(arena, 1 << 16, VM_NOSLEEP | VM_PUSHPAGE), 1 << 16);
    CHECK_EQ(import_flags & VM_PUSHPAGE, VM_PUSHPAGE);
    vmem_destroy(arena);
    CHECK(imports == releases);
    CHECK_EQ(vmem_size(source, VMEM_ALLOC), 0);
    vmem_destroy(source);
}

static void test_heap_arena(void) {
    vmem_alloc_t *take;
    vmem_free_t *give;
    vmem_t *heap = vmem_heap_arena(&take, &give);
    char *pages;
    CHECK(heap != NULL && vmem_heap_arena(NULL, NULL) == heap);
    pages = take(heap, 8192, VM_NOSLEEP);
    CHECK(pages != NULL && pages[0] == 0 && pages[8191] == 0);
    memset(pages, 1, 8192);
    give(heap, pages, 8192);
}

int main(void) {
    test_span();
    test_constraints();
    test_import();
    test_heap_arena();
    return 0;
}
