// What shape should the magazine have that malloc and free work on? The instructions of a hit for three shapes, cycles each.
//
//   array      a word says where the top round is, the slots lie in the magazine
//   ahead      vmag's: the same, and the round that the next malloc takes is in a word of its own (src/heap/fast.h)
//   list       free objects hold the address of the next; the word is the first one
//
// `front_shapes [OBJECTS [SMALLEST LARGEST]]`: allocates OBJECTS of random sizes, frees them last first, again and again; then frees one of
// 16 and allocates another in its place. Prints user-mode cycles, medians of 2001 rounds: of one size, and of several. What it shows is
// in docs/decisions/0025. Needs perf events.
// SPDX-License-Identifier: BSD-2-Clause
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLASSES = 64, GRAIN = 16, MOST = 1024, SLOTS = 2048, STOCK = 1000, KEPT = 16, SLAB_BYTES = 64 * 4096, ARENA_WORD = 0x300, ROUNDS = 2001 };

#define NOINLINE __attribute__((noinline))
#define IN_ORDER __asm__ volatile("" ::: "memory")

struct shape {
    const char *name;
    void *(*allocate)(size_t size);
    void (*release)(void *object);
};

static uint8_t class_of_size[MOST + 1];
static uint16_t *page_map;
static uintptr_t page_map_end = (uintptr_t)1 << 35;
static _Thread_local struct {
    void **top[CLASSES], *ahead[CLASSES];
    uintptr_t word;
    uint16_t own[CLASSES];
} front;

NOINLINE static void *array_allocate(size_t size) {
    if (size > MOST) return NULL;
    const uintptr_t class = class_of_size[size];
    void **top = front.top[class], *const object = top[-1];
    if (object == NULL) return NULL;
    front.top[class] = --top;
    IN_ORDER;
    *top = (void *)(front.word + class);
    return object;
}

NOINLINE static void array_release(void *object) {
    const uintptr_t granule = (uintptr_t)object >> 12;
    if (granule >= page_map_end) return;
    const uintptr_t word = page_map[granule];
    void **const top = front.top[(uint8_t)word];
    if ((uintptr_t)*top != word) return;
    *top = object;
    IN_ORDER;
    front.top[(uint8_t)word] = top + 1;
}

NOINLINE static void *ahead_allocate(size_t size) {
    if (size > MOST) return NULL;
    const uintptr_t class = class_of_size[size];
    void **const top = front.top[class], *const next = top[-1];
    if (next == NULL) return NULL;
    void *const object = front.ahead[class];
    front.ahead[class] = next;
    IN_ORDER;
    front.top[class]--;
    top[-1] = (void *)(front.word + class);
    return object;
}

NOINLINE static void *list_allocate(size_t size) {
    if (size > MOST) return NULL;
    const uintptr_t class = class_of_size[size];
    void **const first = front.top[class];
    if (first == NULL) return NULL;
    front.top[class] = *first;
    return first;
}

NOINLINE static void list_release(void *object) {
    const uintptr_t granule = (uintptr_t)object >> 12;
    if (granule >= page_map_end) return;
    const uintptr_t word = page_map[granule];
    if (front.own[(uint8_t)word] != word) return;
    *(void **)object = front.top[(uint8_t)word];
    IN_ORDER;
    front.top[(uint8_t)word] = object;
}

static void *memory(size_t bytes) {
    void *const start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        perror("front_shapes: mmap");
        exit(1);
    }
    return start;
}

static void stock(const struct shape *shape, int is_list) {
    char *const slabs = memory((size_t)CLASSES * SLAB_BYTES);
    char *const magazines = memory((size_t)(CLASSES + 1) * SLOTS * sizeof(void *));
    const uintptr_t aligned = ((uintptr_t)magazines + SLOTS * sizeof(void *) - 1) & ~(uintptr_t)(SLOTS * sizeof(void *) - 1);
    front.word = ARENA_WORD;
    for (size_t class = 1; class < CLASSES; class++) {
        void **const magazine = (void **)(aligned + class * SLOTS * sizeof(void *));
        char *const slab = slabs + class * SLAB_BYTES;
        for (size_t i = 1; i < SLOTS; i++) magazine[i] = (void *)(front.word + class);
        front.own[class] = (uint16_t)(front.word + class);
        front.top[class] = is_list ? NULL : magazine + 1;
        for (size_t page = 0; page < SLAB_BYTES / 4096; page++) page_map[((uintptr_t)slab >> 12) + page] = (uint16_t)(front.word + class);
        front.ahead[class] = slab;
        for (size_t i = 1; i < STOCK && (i + 1) * class * GRAIN <= SLAB_BYTES; i++) shape->release(slab + i * class * GRAIN);
    }
}

static uint64_t cycles(int counter) {
    uint64_t count = 0;
    if (read(counter, &count, sizeof count) != sizeof count) count = 0;
    return count;
}

static int by_size(const void *one, const void *other) {
    const uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}

static double median(uint64_t *numbers) {
    qsort(numbers, ROUNDS, sizeof *numbers, by_size);
    return (double)numbers[ROUNDS / 2];
}

static int open_counter(void) {
    struct perf_event_attr what = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES, .size = sizeof what, .exclude_kernel = 1};
    const int counter = (int)syscall(SYS_perf_event_open, &what, 0, -1, -1, 0);
    if (counter < 0) {
        perror("front_shapes: this machine counts no cycles");
        exit(77);
    }
    return counter;
}

static void measure(const struct shape *shape, int counter, uint32_t count, uint32_t smallest, uint32_t largest) {
    void **const objects = memory(count * sizeof *objects);
    uint32_t *const sizes = memory(count * sizeof *sizes);
    static uint64_t allocating[ROUNDS], freeing[ROUNDS], replacing[ROUNDS];
    uint64_t state = 1;
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < count; i++) {
            state = state * 6364136223846793005u + 1;
            sizes[i] = smallest + (uint32_t)((state >> 33) % (largest - smallest + 1));
        }
        const uint64_t begun = cycles(counter);
        for (uint32_t i = 0; i < count; i++) {
            void *const object = shape->allocate(sizes[i]);
            *(volatile int *)object = 1;
            objects[count - 1 - i] = object;
        }
        const uint64_t half = cycles(counter);
        for (uint32_t i = 0; i < count; i++) shape->release(objects[i]);
        const uint64_t done = cycles(counter);
        allocating[round] = half - begun;
        freeing[round] = done - half;
        for (uint32_t i = 0; i < KEPT; i++) objects[i] = shape->allocate(sizes[i]);
        const uint64_t again = cycles(counter);
        for (uint32_t i = 0; i < count; i++) {
            shape->release(objects[sizes[i] % KEPT]);
            void *const object = shape->allocate(sizes[i]);
            *(volatile int *)object = 1;
            objects[sizes[i] % KEPT] = object;
        }
        replacing[round] = cycles(counter) - again;
        for (uint32_t i = 0; i < KEPT; i++) shape->release(objects[i]);
    }
    printf("%-6s %4u objects of %3u to %3u bytes: allocate %5.1f, free %5.1f, replace %5.1f cycles\n", shape->name, count, smallest, largest,
           median(allocating) / count, median(freeing) / count, median(replacing) / count);
}

int main(int arguments, char **argument) {
    static const struct shape shapes[] = {
        {"array", array_allocate, array_release}, {"ahead", ahead_allocate, array_release}, {"list", list_allocate, list_release}};
    const uint32_t count = arguments > 1 ? (uint32_t)atoi(argument[1]) : 900;
    const uint32_t smallest = arguments > 3 ? (uint32_t)atoi(argument[2]) : 33, largest = arguments > 3 ? (uint32_t)atoi(argument[3]) : 128;
    const int counter = open_counter();
    if (count < KEPT || count > STOCK - KEPT || smallest == 0 || smallest > largest || largest > 256) {
        fprintf(stderr, "usage: front_shapes [OBJECTS [SMALLEST LARGEST]]: %d to %d objects of 1 to 256 bytes\n", KEPT, STOCK - KEPT);
        return 2;
    }
    for (size_t size = 0; size <= MOST; size++) class_of_size[size] = (uint8_t)((size + GRAIN - 1) / GRAIN);
    page_map = memory(page_map_end * sizeof *page_map);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        stock(&shapes[i], shapes[i].release == list_release);
        measure(&shapes[i], counter, count, smallest, smallest);
        measure(&shapes[i], counter, count, smallest, largest);
    }
}
