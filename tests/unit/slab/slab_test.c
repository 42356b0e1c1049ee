// Tests slab/slab.h for every size class: the table of shapes with their waste and metadata, and division by multiplication
// against real division at every offset.
// SPDX-License-Identifier: BSD-2-Clause
#include "slab/slab.h"

#include "heap/size_class.h"
#include "magazine/magazine.h"
#include "os/pages.h"
#include "unit.h"

static void check_promises(size_t size, const struct slab_shape *shape, const char *what) {
    size_t rest = shape->slab_bytes - (size_t)shape->buffers * size, metadata = slab_metadata_bytes(shape);

    say("%8s %8zu %8zu %8u %8zu %6.2f %% %8zu %6.2f %%", what, size, shape->slab_bytes, shape->buffers, rest,
        100.0 * (double)rest / (double)shape->slab_bytes, metadata, 100.0 * (double)metadata / (double)shape->slab_bytes);
    CHECK_EQ(shape->size, size);
    CHECK_EQ(shape->buffers, shape->slab_bytes / size);
    CHECK_EQ(shape->slab_bytes % os_page_size(), 0);
    CHECK_LE(shape->slab_bytes / os_page_size(), 32); // a bit each (struct run)
    CHECK_LE(rest * 64, shape->slab_bytes);
    CHECK_LT(metadata * 50, shape->slab_bytes);
    for (unsigned lg = 1; shape->slab_bytes << lg <= LARGEST_SLAB; lg++) // larger ones cost less
        CHECK_LE(slab_header_bytes(shape, lg), slab_header_bytes(shape, 0) << lg);
    // Not less than what is plainly there: header, a bit a buffer, a word and a pointer a page.
    CHECK_GE(metadata, sizeof(struct slab) + shape->buffers / 8 + shape->slab_bytes / 4096 * (2 + sizeof(void *)));
}

static long divided(const struct slab_shape *shape, size_t offset) {
    return offset % shape->size == 0 && offset / shape->size < shape->buffers ? (long)(offset / shape->size) : -1;
}

static void check_every_offset(const struct slab_shape *shape) {
    struct slab slab = { .run.node.key = (uintptr_t)123 << 32 };

    for (size_t offset = 0; offset < shape->slab_bytes; offset++)
        CHECK_EQ(slab_index(&slab, shape, (void *)(run_start(&slab.run) + offset)), divided(shape, offset));
    for (size_t i = 0; i < shape->buffers; i++)
        CHECK_EQ(slab_index(&slab, shape, slab_buffer(&slab, shape, i)), i);
    slab.run.lg_times = 1;
    for (size_t i = 0; i < 2 * shape->buffers; i++)
        CHECK_EQ(slab_index(&slab, shape, slab_buffer(&slab, shape, i)), i);
    CHECK_EQ(slab_index(&slab, shape, slab_buffer(&slab, shape, 2 * shape->buffers)), -1);
}

// Sizes that are no class (object caches will have them): around each buffer's start.
static void check_other_sizes(void) {
    struct slab slab = { .run.node.key = (uintptr_t)5 << 40 };

    for (size_t size = 8; size <= SLAB_MOST; size += 8) {
        struct slab_shape shape = slab_shape_for(size);

        CHECK_EQ(shape.buffers, shape.slab_bytes / size);
        for (size_t i = 0; i < shape.buffers; i++) {
            uintptr_t start = run_start(&slab.run) + i * size;

            CHECK_EQ(slab_index(&slab, &shape, (void *)start), i);
            CHECK_EQ(slab_index(&slab, &shape, (void *)(start + 1)), -1);
            CHECK_EQ(slab_index(&slab, &shape, (void *)(start + size - 1)), -1);
        }
        CHECK_EQ(slab_index(&slab, &shape, (void *)(run_start(&slab.run) + shape.buffers * size)), -1);
    }
}

int main(void) {
    say("%8s %8s %8s %8s %8s %8s %8s %8s", "class", "size", "slab", "buffers", "rest", "", "metadata", "");
    for (unsigned class = 1; class < SLAB_CLASSES; class++) {
        struct slab_shape shape = slab_shape_for(class_size(class));
        char number[16];

        snprintf(number, sizeof number, "%u", class);
        check_promises(class_size(class), &shape, number);
        check_every_offset(&shape);
    }
    for (unsigned size = 0; size < MAGAZINE_SIZES; size++) {
        struct slab_shape shape = slab_shape_for(64u << size);

        check_promises(64u << size, &shape, "magazine");
        check_every_offset(&shape);
    }
    check_other_sizes();
    return 0;
}
