// Tests slab/bin.h: filling and draining against a model that knows every buffer, the order of addresses, the one empty slab
// that is kept, what is found out about addresses that are no live buffers, stretches of neighbours, and lines of two threads' own.
// SPDX-License-Identifier: BSD-2-Clause
#include "slab/bin.h"

#include <string.h>

#include "conf/options.h"
#include "heap/arena.h"
#include "heap/heap.h"
#include "pages/page_map.h"
#include "unit.h"

// An arena's number that the malloc beneath this program does not use.
enum { ARENA = 200, SLABS_MOST = 40, BUFFERS_MOST = 32768, BATCH_MOST = 100, LIVES_MOST = 4000 };

struct fixture {
    struct pages pages;
    struct bin bin;
};

struct model_slab {
    uintptr_t start; // 0: no slab
    size_t free;
    bool used[BUFFERS_MOST];
};

static struct {
    struct slab_shape shape;
    struct model_slab slabs[SLABS_MOST];
    void *live[LIVES_MOST];
    size_t lives;
} model;

static struct random random_source = { 1994 };

static void fixture_make(struct fixture *fixture, unsigned class) {
    memset(&fixture->pages, 0, sizeof fixture->pages);
    pages_init(&fixture->pages, "bin test");
    bin_init(&fixture->bin, slab_shape_for(class_size(class)), &fixture->pages, ARENA, (uint16_t)arena_word(ARENA, class));
    memset(&model, 0, sizeof model);
    model.shape = fixture->bin.shape;
}

static size_t model_slabs(void) {
    size_t count = 0;

    for (int i = 0; i < SLABS_MOST; i++)
        count += model.slabs[i].start != 0;
    return count;
}

// The slab that serves next: of those in use the lowest, then one that is all free and was kept.
static struct model_slab *model_next(const struct bin *bin) {
    struct model_slab *best = NULL, *empty = NULL;

    for (struct model_slab *slab = model.slabs; slab < model.slabs + SLABS_MOST; slab++) {
        bool kept = bin->empty != NULL && run_start(&bin->empty->run) == slab->start;

        if (slab->start == 0 || slab->free == 0)
            continue;
        if (kept)
            empty = slab;
        else if (best == NULL || slab->start < best->start)
            best = slab;
    }
    return best != NULL ? best : empty;
}

// The number of the next buffer of `buffers`, one of which is free, to come with `count` of `size` bytes: the lowest, or where few are taken apart that are
// at most a cache line, of each two lines (of 48 bytes, of each 96) of the lowest 4 KiB that have one the first, then the second of each, and so on.
static size_t next_buffer(const bool *used, size_t buffers, size_t size, size_t count, bool apart) {
    size_t lowest = 0, of_two_lines = 2 * CACHE_LINE / size, around = 64 * (size < CACHE_LINE ? CACHE_LINE / size : 1);

    while (used[lowest])
        lowest++;
    if (!apart || size > CACHE_LINE || count > 64)
        return lowest;
    for (size_t from = lowest / around * around, lane = 0; lane < of_two_lines; lane++)
        for (size_t i = from + lane; i < from + around && i < buffers; i += of_two_lines)
            if (!used[i])
                return i;
    abort();
}

static uintptr_t model_take(struct model_slab *slab, size_t count, bool apart) {
    size_t i = next_buffer(slab->used, model.shape.buffers, model.shape.size, count, apart);

    slab->used[i] = true;
    slab->free--;
    return slab->start + i * model.shape.size;
}

static struct model_slab *model_of(const void *address) {
    for (struct model_slab *slab = model.slabs; slab < model.slabs + SLABS_MOST; slab++)
        if (slab->start != 0 && (uintptr_t)address - slab->start < model.shape.slab_bytes)
            return slab;
    return NULL;
}

static void model_add(uintptr_t start) {
    struct model_slab *slab = model.slabs;

    while (slab->start != 0)
        slab++;
    CHECK(slab < model.slabs + SLABS_MOST);
    memset(slab, 0, sizeof *slab);
    slab->start = start;
    slab->free = model.shape.buffers;
}

// A new slab is the root of the heap of partial ones, or the root's first child.
static void grow(struct bin *bin) {
    struct slab *slab;

    CHECK(bin_grow(bin));
    slab = (struct slab *)(void *)bin->partial;
    while (slab != NULL && model_of((void *)run_start(&slab->run)) != NULL)
        slab = (struct slab *)(void *)(slab->run.node.next != NULL ? slab->run.node.next : slab->run.node.child);
    CHECK(slab != NULL);
    model_add(run_start(&slab->run));
    for (size_t offset = 0; offset < model.shape.slab_bytes; offset += GRANULE_BYTES)
        CHECK_EQ(page_map_word((void *)(run_start(&slab->run) + offset)), bin->word);
}

// Every round is the one that the model names next: lowest slab first, written from the end.
static void fill(struct bin *bin, size_t count) {
    bool apart = random_below(&random_source, 2) == 0;
    void *rounds[BATCH_MOST];
    struct model_slab *slab;
    size_t expected = 0;
    uintptr_t order[BATCH_MOST];

    while (expected < count && (slab = model_next(bin)) != NULL)
        while (expected < count && slab->free > 0)
            order[expected++] = model_take(slab, count, apart);
    size_t got = (apart ? bin_fill_apart : bin_fill)(bin, rounds, count);
    CHECK_EQ(got, expected);
    for (size_t i = 0; i < got; i++) {
        CHECK_EQ((uintptr_t)rounds[count - 1 - i], order[i]);
        model.live[model.lives++] = rounds[count - 1 - i];
        memset(rounds[count - 1 - i], 0x5a, 8);
    }
}

// Slabs that the bin has destroyed leave the model; only slabs that were all free may.
static void forget_destroyed(const struct bin *bin) {
    for (struct model_slab *slab = model.slabs; slab < model.slabs + SLABS_MOST; slab++)
        if (slab->start != 0 && page_map_word((void *)slab->start) == 0) {
            CHECK_EQ(slab->free, model.shape.buffers);
            slab->start = 0;
        }
    CHECK_EQ(model_slabs(), bin->slabs);
}

static void drain(struct bin *bin, size_t count) {
    void *rounds[BATCH_MOST];
    size_t done, filled = 0;

    while (filled < count && model.lives > 0) {
        size_t i = random_below(&random_source, model.lives);
        struct model_slab *slab = model_of(model.live[i]);

        if (random_below(&random_source, 20) == 0) {
            rounds[filled++] = NULL; // passed over
            continue;
        }
        rounds[filled++] = model.live[i];
        slab->used[((uintptr_t)model.live[i] - slab->start) / model.shape.size] = false;
        slab->free++;
        model.live[i] = model.live[--model.lives];
    }
    CHECK_EQ(bin_drain(bin, rounds, filled, &done), BIN_OK);
    CHECK_EQ(done, filled);
    forget_destroyed(bin);
}

static size_t model_free(void) {
    size_t free = 0;

    for (int i = 0; i < SLABS_MOST; i++)
        free += model.slabs[i].start != 0 ? model.slabs[i].free : 0;
    return free;
}

static size_t model_empty_slabs(void) {
    size_t count = 0;

    for (int i = 0; i < SLABS_MOST; i++)
        count += model.slabs[i].start != 0 && model.slabs[i].free == model.shape.buffers;
    return count;
}

static void step(struct bin *bin, bool growing) {
    size_t count = 1 + random_below(&random_source, BATCH_MOST), slabs_wanted = 12;

    if (growing && model.lives + count < LIVES_MOST) {
        if (model_free() < count && model_slabs() < slabs_wanted)
            grow(bin);
        fill(bin, count);
    } else {
        drain(bin, count);
        CHECK_LE(model_empty_slabs(), 1); // one is kept, not more
    }
    CHECK_EQ(bin->free_buffers, model_free());
    CHECK_EQ(bin->filled - bin->drained, model.lives);
    bin_check(bin);
}

static void end(struct fixture *fixture) {
    while (model.lives > 0)
        drain(&fixture->bin, BATCH_MOST);
    bin_check(&fixture->bin);
    CHECK_EQ(fixture->bin.slabs, 1);
    bin_trim(&fixture->bin, true);
    CHECK_EQ(fixture->bin.slabs, 0);
    CHECK_EQ(pages_active_bytes(&fixture->pages), 0);
    pages_purge(&fixture->pages, 0);
}

static void random_run(unsigned class) {
    static struct fixture fixture;

    fixture_make(&fixture, class);
    for (int i = 0; i < 600; i++)
        step(&fixture.bin, random_below(&random_source, 100) < (i / 60 % 2 ? 25 : 75));
    end(&fixture);
}

// Used up from the model's view: allocating and freeing one object at the edge creates and destroys nothing.
static void hysteresis(void) {
    static struct fixture fixture;
    struct bin *bin = &fixture.bin;
    void *edge, *first;
    size_t done;

    fixture_make(&fixture, size_class(1024));
    CHECK(bin_grow(bin) && bin_grow(bin));
    CHECK_EQ(bin->slabs, 2);
    void *all[256];
    CHECK_EQ(bin_fill(bin, all, bin->shape.buffers), bin->shape.buffers);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(bin_fill(bin, &edge, 1), 1);
        CHECK_EQ(bin_drain(bin, &edge, 1, &done), BIN_OK);
        CHECK_EQ(bin->slabs, 2);
    }
    // The second becomes empty, too: the lower of the two stays.
    first = all[bin->shape.buffers - 1];
    CHECK_EQ(bin_drain(bin, all, bin->shape.buffers, &done), BIN_OK);
    CHECK_EQ(bin->slabs, 1);
    CHECK(run_start(&bin->empty->run) == (uintptr_t)first && first < edge);
    bin_check(bin);
    bin_trim(bin, true);
}

// By intervals: the empty slab goes when nothing was handed out since the last look.
static void trim_by_interval(void) {
    static struct fixture fixture;
    struct bin *bin = &fixture.bin;
    void *object;
    size_t done;

    fixture_make(&fixture, size_class(1024));
    CHECK(bin_grow(bin));
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(bin_fill(bin, &object, 1), 1);
        CHECK_EQ(bin_drain(bin, &object, 1, &done), BIN_OK);
        bin_trim(bin, false);
        CHECK_EQ(bin->slabs, 1); // it was of use
    }
    bin_trim(bin, false);
    CHECK_EQ(bin->slabs, 0);
    CHECK_EQ(bin->free_buffers, 0);
    CHECK(bin_grow(bin) && bin_fill(bin, &object, 1) == 1);
    bin_trim(bin, true);
    bin_trim(bin, false);
    CHECK_EQ(bin->slabs, 1); // in use
    CHECK_EQ(bin_drain(bin, &object, 1, &done), BIN_OK);
    bin_trim(bin, true);
    CHECK_EQ(bin->slabs, 0);
    bin_check(bin);
}

static unsigned largest_slab(const struct heap_node *node) {
    unsigned lg_times = 0;

    for (; node != NULL; node = node->next) {
        const struct run *run = (const struct run *)(const void *)node;
        unsigned below = largest_slab(node->child);

        lg_times = run->lg_times > lg_times ? run->lg_times : lg_times;
        lg_times = below > lg_times ? below : lg_times;
    }
    return lg_times;
}

// A bin that has much gets larger slabs, a small part of what it has each. They are slabs like others: filled, drained in any order and given
// back; and where only small places are free, the bin takes these.
static void larger_slabs(unsigned class) {
    enum { BUFFERS = 40000 };
    static struct fixture fixture;
    static void *all[BUFFERS];
    struct bin *bin = &fixture.bin;
    size_t count = 0, bytes = 0, done;

    fixture_make(&fixture, class);
    while (count < BUFFERS && bytes < 6 * 1024 * 1024) {
        if (bin_fill(bin, &all[count], 1) == 0) {
            size_t before = bin->slabs;

            CHECK_EQ(bin->free_buffers, 0);
            CHECK(bin_grow(bin));
            CHECK_EQ(bin->free_buffers, (bin->slabs - before) * bin->shape.buffers);
            CHECK(bin->slabs - before == 1 || ((bin->slabs - before) * 32 <= before &&
                                               (bin->slabs - before) * bin->shape.slab_bytes <= LARGEST_SLAB));
            CHECK_EQ(bin->slabs - before, (size_t)1 << ((struct run *)bin->partial)->lg_times);
            bin_check(bin);
            continue;
        }
        memset(all[count++], 0x5a, bin->shape.size);
        bytes += bin->shape.size;
    }
    CHECK_EQ(bin->filled, count);
    CHECK_EQ(pages_active_bytes(&fixture.pages), bin->slabs * bin->shape.slab_bytes);
    for (size_t left = count; left > 0; left--) {
        size_t i = random_below(&random_source, left);
        void *object = all[i];

        all[i] = all[left - 1];
        CHECK_EQ(page_map_word(object), bin->word);
        CHECK_EQ(bin_drain(bin, &object, 1, &done), BIN_OK);
        if (left == count / 2)
            CHECK_EQ(largest_slab(bin->partial) > 0, bin->shape.slab_bytes * 2 <= LARGEST_SLAB);
        if (left % 1000 == 0)
            bin_check(bin);
    }
    CHECK(bin->empty != NULL && bin->partial == NULL);
    bin_trim(bin, true);
    CHECK_EQ(bin->slabs + bin->partial_slabs + bin->free_buffers, 0);
    CHECK_EQ(pages_active_bytes(&fixture.pages), 0);
    pages_purge(&fixture.pages, 0);
}

// Each misuse is put behind a good round and before another: it is named by its index, and nothing behind it is touched.
static void expect_finding(struct bin *bin, void *bad, enum bin_finding wanted) {
    void *rounds[4];
    size_t done = 99, free_before;

    CHECK_EQ(bin_fill(bin, rounds, 2), 2);
    void *batch[3] = { rounds[0], bad, rounds[1] };
    free_before = bin->free_buffers;
    CHECK_EQ(bin_drain(bin, batch, 3, &done), wanted);
    CHECK_EQ(done, 1);
    CHECK_EQ(bin->free_buffers, free_before + 1);
    CHECK_EQ(bin_drain(bin, &rounds[1], 1, &done), BIN_OK);
    bin_check(bin);
}

static void findings(unsigned class) {
    static struct fixture fixture, other;
    struct bin *bin = &fixture.bin;
    void *live[2], *stranger, *freed;
    static char here[64];
    size_t done;

    fixture_make(&other, size_class(2000));
    fixture_make(&fixture, class);
    CHECK(bin_grow(bin) && bin_grow(&other.bin));
    CHECK_EQ(bin_fill(bin, live, 2), 2);
    CHECK_EQ(bin_fill(&other.bin, &stranger, 1), 1);
    freed = live[0];
    CHECK_EQ(bin_drain(bin, &freed, 1, &done), BIN_OK);
    // Somebody else's, nobody's, not a start, free already, never handed out.
    expect_finding(bin, stranger, BIN_NOT_HERE);
    expect_finding(bin, malloc(class_size(class)), BIN_NOT_HERE);
    expect_finding(bin, here, BIN_NOT_HERE);
    expect_finding(bin, (void *)16, BIN_NOT_HERE);
    expect_finding(bin, (void *)UINTPTR_MAX, BIN_NOT_HERE);
    expect_finding(bin, (char *)live[1] + 1, BIN_NOT_A_START);
    expect_finding(bin, (char *)live[1] + bin->shape.size - 1, BIN_NOT_A_START);
    if (bin->shape.buffers * bin->shape.size < bin->shape.slab_bytes) {
        uintptr_t slab = run_start(page_map_run(live[1]));

        expect_finding(bin, (void *)(slab + bin->shape.buffers * bin->shape.size), BIN_NOT_A_START);
    }
    uintptr_t last = run_start(page_map_run(live[1])) + (size_t)(bin->shape.buffers - 1) * bin->shape.size;
    expect_finding(bin, (void *)last, BIN_FREE_ALREADY);
    // Twice in one batch.
    void *twice[2] = { live[1], live[1] };
    CHECK_EQ(bin_drain(bin, twice, 2, &done), BIN_FREE_ALREADY);
    CHECK_EQ(done, 1);
    // A buffer of a slab that is gone.
    bin_trim(bin, true);
    CHECK_EQ(bin_drain(bin, &live[1], 1, &done), BIN_NOT_HERE);
    CHECK_EQ(bin_drain(&other.bin, &stranger, 1, &done), BIN_OK);
    bin_trim(&other.bin, true);
}

// Rounds in stretches of neighbours, upwards and downwards, some of them free already and some behind the last buffer: just those before the
// first bad one are put back, and what is taken again is what the model names.
static void stretches(unsigned class) {
    static struct fixture fixture;
    static bool used[BUFFERS_MOST];
    struct bin *bin = &fixture.bin;
    size_t buffers, places, done;
    void *rounds[BATCH_MOST];

    fixture_make(&fixture, class);
    memset(used, 0, sizeof used);
    CHECK(bin_grow(bin));
    struct slab *slab = (struct slab *)(void *)bin->partial;
    uintptr_t start = run_start(&slab->run);
    buffers = bin->shape.buffers;
    places = (bin->shape.slab_bytes + bin->shape.size - 1) / bin->shape.size;
    for (int turn = 0; turn < 4000; turn++) {
        size_t wanted = 1 + random_below(&random_source, turn % 100 == 0 ? BATCH_MOST : 20), filled = 0, good = 0;

        bool apart = random_below(&random_source, 2) == 0;

        for (size_t got = (apart ? bin_fill_apart : bin_fill)(bin, rounds, wanted), i = 1; i <= got; i++) {
            size_t at = next_buffer(used, buffers, bin->shape.size, wanted, apart);

            CHECK_EQ((uintptr_t)rounds[wanted - i], start + at * bin->shape.size);
            used[at] = true;
        }
        while (filled < BATCH_MOST && random_below(&random_source, 4) != 0) {
            size_t at = random_below(&random_source, places), length = random_below(&random_source, 40);
            bool down = random_below(&random_source, 2) == 0;

            for (; length > 0 && filled < BATCH_MOST && at < places; length--, at += down ? (size_t)-1 : 1)
                if (used[at] || random_below(&random_source, 50) == 0)
                    rounds[filled++] = (void *)(start + at * bin->shape.size);
        }
        enum bin_finding wanted_finding = BIN_OK, finding = bin_drain(bin, rounds, filled, &done);

        for (; good < filled && wanted_finding == BIN_OK; good++) {
            size_t at = ((uintptr_t)rounds[good] - start) / bin->shape.size;

            wanted_finding = at >= buffers ? BIN_NOT_A_START : used[at] ? BIN_OK : BIN_FREE_ALREADY;
            used[at] = false;
        }
        CHECK_EQ(finding, wanted_finding);
        CHECK_EQ(done, good - (wanted_finding != BIN_OK));
        for (size_t i = 0; i < buffers; i++)
            CHECK_EQ(slab->bitmap[i / 64] >> i % 64 & 1, !used[i]);
        bin_check(bin);
    }
    for (size_t i = 0; i < buffers; i++) {
        rounds[0] = (void *)(start + i * bin->shape.size);
        if (used[i])
            CHECK_EQ(bin_drain(bin, rounds, 1, &done), BIN_OK);
    }
    bin_trim(bin, true);
    pages_purge(&fixture.pages, 0);
}

// Two threads that take one at a time: each gets eight neighbours for itself, as long as eight are free; every buffer is given once.
static void one_by_one(unsigned class, const void *first) {
    static int owner[BUFFERS_MOST / 8], given[BUFFERS_MOST];
    static void *taken[BUFFERS_MOST];
    struct fixture fixture;
    const void *last[3] = { NULL, first, first };
    size_t buffers, done;

    fixture_make(&fixture, class);
    memset(owner, 0, sizeof owner);
    memset(given, 0, sizeof given);
    buffers = fixture.bin.shape.buffers;
    CHECK(bin_take(&fixture.bin, NULL) == NULL && bin_grow(&fixture.bin));
    for (size_t i = 0; i < buffers; i++) {
        int thread = 1 + (int)(i % 2);
        void *buffer = taken[i] = bin_take(&fixture.bin, last[thread]);
        long index = slab_index((struct slab *)page_map_run(buffer), &fixture.bin.shape, buffer);

        CHECK(index >= 0 && !given[index]);
        given[index] = 1;
        if (i + 16 < buffers)
            CHECK(owner[index / 8] == 0 || owner[index / 8] == thread);
        owner[index / 8] = thread;
        last[thread] = buffer;
    }
    CHECK(bin_take(&fixture.bin, last[1]) == NULL);
    CHECK_EQ(bin_used(&fixture.bin), buffers);
    for (size_t i = 0; i < buffers; i += 2)
        CHECK_EQ(bin_drain(&fixture.bin, &taken[i], 1, &done), BIN_OK);
    bin_check(&fixture.bin);
    for (size_t i = 0; i < buffers; i += 2)
        taken[i] = bin_take(&fixture.bin, NULL);
    CHECK(bin_take(&fixture.bin, NULL) == NULL);
    CHECK_EQ(bin_drain(&fixture.bin, taken, buffers, &done), BIN_OK);
    bin_check(&fixture.bin);
    bin_trim(&fixture.bin, true);
    CHECK_EQ(fixture.bin.slabs, 0);
}

int main(void) {
    CHECK(heap_ready());
    one_by_one(size_class(16), NULL);
    one_by_one(size_class(112), (void *)1);
    one_by_one(size_class(640), (void *)&model);
    one_by_one(size_class(14 * 1024), NULL);
    for (unsigned class = 1; class < SLAB_CLASSES; class += 5)
        random_run(class);
    random_run(SLAB_CLASSES - 1);
    stretches(size_class(8));
    stretches(size_class(16));
    stretches(size_class(32));
    stretches(size_class(48));
    stretches(size_class(64));
    stretches(size_class(112));
    stretches(size_class(640));
    hysteresis();
    trim_by_interval();
    larger_slabs(size_class(256));
    larger_slabs(size_class(640));
    larger_slabs(size_class(14 * 1024));
    findings(size_class(16));
    findings(size_class(48));
    findings(size_class(14 * 1024));
    return 0;
}
