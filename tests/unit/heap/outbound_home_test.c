// Tests heap/outbound.h by one thread alone: how many rounds outbound magazines have, where what is in them goes, and that neither objects nor magazines are
// lost on the way.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/outbound.h"

#include "conf/options.h"
#include "heap/capacity.h"
#include "heap/heap.h"
#include "heap/loaded.h"
#include "heap/reclaim.h"
#include "magazine/magazine.h"
#include "pages/page_map.h"
#include "unit.h"

// The rounds of the first magazine, of one while fronts hold much, and what is sent until larger ones come are those of outbound.c.
enum { BYTES = 96, FIRST = 60, CROWDED = 12, STREAM = 200, STREAM_FULL = 7, OBJECTS = 2000, MANY = 20000, KEPT_OF = 10, HOUR_MS = 3600 * 1000 };

static struct arena *owner;
static unsigned class;

static void *objects[MANY];
static size_t next;

// Where there are fewer they are the last.
static void fill(size_t count) {
    next = 0;
    while (count > 0)
        count -= arena_fill(owner, class, objects, count);
}

static void free_some(size_t count) {
    while (count-- > 0)
        free(objects[next++]);
}

static unsigned capacity(void) {
    return words.front->outbound_capacity[class];
}

static size_t in_use(void) {
    return bin_used(&owner->bins[class]);
}

static size_t magazines_in_use(void) {
    size_t used = 0;

    for (unsigned size = 0; size < MAGAZINE_SIZES; size++)
        used += bin_used(&magazines_bins_at()[size]);
    return used;
}

// With nothing left anywhere, and each class as at first.
static void begin_anew(void) {
    front_flush(words.front);
    front_flush(words.front);
    reclaim_everything();
    CHECK_EQ(in_use(), 0);
    CHECK_EQ(capacity(), 0);
    CHECK_EQ(words.front->outbound_sent[class], 0);
}

static void larger_ones_for_a_stream(void) {
    size_t bytes = atomic_load(&words.front->common->front_bytes), most = front_most_rounds(class), now = FIRST;

    fill(OBJECTS);
    free_some(STREAM_FULL * FIRST);
    CHECK_EQ(capacity(), FIRST);
    CHECK_EQ(atomic_load(&words.front->common->front_bytes), bytes + FIRST * class_size(class));
    while (now < most) {
        free_some(1);
        now = now * 2 + MAGAZINE_OVERHEAD < most ? now * 2 + MAGAZINE_OVERHEAD : most;
        CHECK_EQ(capacity(), now);
        CHECK_GE(words.front->outbound[class].magazine->capacity, now);
        CHECK_EQ(atomic_load(&words.front->common->front_bytes), bytes + now * class_size(class));
        free_some(now - 1);
    }
    free_some(OBJECTS - next);
    begin_anew();
    CHECK_EQ(atomic_load(&words.front->common->front_bytes), bytes);
}

// While the fronts hold what they may they are few, and stay so.
static void small_ones_where_fronts_hold_much(void) {
    const size_t much = (size_t)1 << 40;

    fill(OBJECTS);
    atomic_fetch_add(&words.front->common->front_bytes, much);
    CHECK(fronts_hold_enough(words.front->common));
    free_some(1);
    CHECK_EQ(capacity(), CROWDED);
    free_some(OBJECTS - next);
    CHECK_EQ(capacity(), CROWDED);
    atomic_fetch_sub(&words.front->common->front_bytes, much);
    begin_anew();
}

// A full one goes to the depot as it is, unless its slabs have holes, which its rounds shall fill.
static void full_ones_go_whole(bool sparse) {
    size_t rounds, before;

    fill(sparse ? MANY : OBJECTS);
    for (size_t i = 0; sparse && i < MANY; i++)
        if (i % KEPT_OF != 0)
            arena_drain(owner, class, &objects[i], 1, "test");
    for (size_t i = 0; sparse && i < MANY / KEPT_OF; i++)
        objects[i] = objects[i * KEPT_OF];
    CHECK_EQ(arena_slabs_are_sparse(owner, class), sparse);
    before = in_use();
    rounds = owner->depots[class].rounds;
    free_some(FIRST + 1);
    CHECK_EQ(owner->depots[class].rounds, rounds + (sparse ? 0 : FIRST));
    CHECK_EQ(in_use(), before - (sparse ? FIRST : 0));
    if (sparse) { // the same magazine again and again, until it is too small
        free_some(STREAM_FULL * FIRST - FIRST);
        CHECK(arena_slabs_are_sparse(owner, class) && capacity() > 2 * FIRST);
    }
    free_some((sparse ? MANY / KEPT_OF : OBJECTS) - next);
    begin_anew();
}

// Of one that is not full all go to their slabs: a depot's magazines have no slots that say another arena.
static void others_go_to_slabs(void (*give)(struct front *), size_t count) {
    size_t rounds, before;

    fill(count);
    before = in_use();
    rounds = owner->depots[class].rounds;
    free_some(count);
    CHECK_EQ(in_use(), before);
    give(words.front);
    CHECK_EQ(in_use(), before - count);
    CHECK_EQ(owner->depots[class].rounds, rounds);
    begin_anew();
}

// What the slots of a magazine say that came from the owner's depot is not what those of a loaded one say.
static void taken_back(void) {
    struct magazine *empty = magazine_create(FIRST, arena_word(owner->id, class)), *full;
    void *object;

    fill(OBJECTS);
    object = malloc(BYTES); // nothing is taken back by who never allocates
    free_some(4 * FIRST + 1);
    full = arena_exchange_empty(owner, class, empty);
    CHECK(full != NULL);
    rounds_go_home(owner, class, full->round, full->rounds, "test");
    magazine_destroy(full);
    free_some(FIRST);
    CHECK_EQ(words.front->outbound[class].magazine, empty);
    CHECK_EQ(*words.front->outbound[class].top, (void *)arena_word(owner->id, class));
    free_some(FIRST / 2);
    CHECK_EQ(words.front->outbound_sent[class], STREAM + 1);
    for (void *taken; words.front->loaded[class] != empty; objects[--next] = taken)
        CHECK((taken = malloc(BYTES)) != NULL && next > 0);
    CHECK_EQ(empty->round[FIRST - 1], (void *)front_word(words.front, class));
    CHECK_EQ(words.front->outbound_sent[class], STREAM); // no larger ones are wanted by who takes them back
    free(object);
    free_some(OBJECTS - next);
    begin_anew();
}

int main(void) {
    size_t before;

    CHECK(heap_ready());
    options.narenas = 3;
    options.background_thread = false;
    free(malloc(24));
    class = size_class(BYTES);
    owner = arena_make_automatic(words.front->arena->id == 1 ? 2 : 1);
    CHECK(owner != NULL && owner != words.front->arena && owner != words.front->common);
    words.front->tidied_at += HOUR_MS; // however slow the machine is
    begin_anew();
    before = magazines_in_use();
    larger_ones_for_a_stream();
    small_ones_where_fronts_hold_much();
    full_ones_go_whole(false);
    full_ones_go_whole(true);
    others_go_to_slabs(front_flush, FIRST / 2);
    others_go_to_slabs(front_drain, FIRST / 2);
    others_go_to_slabs(front_drain, FIRST); // a full one as well
    taken_back();
    CHECK_EQ(magazines_in_use(), before);
    return 0;
}
