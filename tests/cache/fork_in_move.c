// A fork while another thread is in the move callback: in the child, where that thread is gone, the cache is consolidated as ever.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdatomic.h>
#include <vmag/cache.h>

#include "../check.h"
#include "../support/child.h"

enum { OBJECTS = 4000, KEPT_EVERY = 8, SIZE = 512, HANG_SECONDS = 300 };

struct object {
    struct object **home; // NULL: not in use
    char filler[SIZE - sizeof(struct object **)];
};

static struct object *objects[OBJECTS];
static vmag_cache_t *cache;
static _Atomic int moves, waits = 1, forked;

static enum vmag_move_answer move(void *from, void *to, size_t size, void *argument) {
    struct object *old = from, *fresh = to;

    (void)argument;
    moves++;
    while (waits && !forked)
        usleep(1000);
    if (old->home == NULL)
        return VMAG_MOVE_DONT_KNOW;
    memcpy(fresh, old, size);
    *fresh->home = fresh;
    old->home = NULL;
    return VMAG_MOVE_YES;
}

static void *consolidate(void *unused) {
    CHECK_GT(vmag_cache_consolidate(cache), 0);
    return unused;
}

static void free_at(int i) {
    objects[i]->home = NULL;
    vmag_cache_free(cache, objects[i]);
}

int main(void) {
    pthread_t thread;
    pid_t child;

    alarm(HANG_SECONDS);
    cache = vmag_cache_create("moved by a thread", sizeof(struct object), 0, NULL, NULL, NULL, NULL, NULL, 0);
    vmag_cache_set_move(cache, move);
    for (int i = 0; i < OBJECTS; i++) {
        CHECK((objects[i] = vmag_cache_alloc(cache, 0)) != NULL);
        objects[i]->home = &objects[i];
    }
    for (int i = 0; i < OBJECTS; i++)
        if (i % KEPT_EVERY != 0)
            free_at(i);
    vmag_cache_reap(cache);
    CHECK_EQ(pthread_create(&thread, NULL, consolidate, NULL), 0);
    while (moves == 0)
        usleep(1000);
    CHECK_GE(child = fork(), 0);
    forked = 1;
    if (child == 0) {
        alarm(HANG_SECONDS);
        waits = 0;
    } else {
        expect_child(child);
        CHECK_EQ(pthread_join(thread, NULL), 0);
    }
    if (child == 0)
        CHECK_GT(vmag_cache_consolidate(cache), 0);
    for (int i = 0; i < OBJECTS; i += KEPT_EVERY)
        free_at(i);
    vmag_cache_destroy(cache);
    return 0;
}
