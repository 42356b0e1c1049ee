// Values of controls: what the program makes, arenas and caches; what is told of objects and of misuse.
// SPDX-License-Identifier: BSD-2-Clause
#include "values.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>

static unsigned create(const char *name) {
    unsigned id;
    size_t size = sizeof id;

    CHECK_SAY(mallctl(name, &id, &size, NULL, 0) == 0, "%s", name);
    return id;
}

static unsigned lookup(void *address) {
    unsigned id;
    size_t size = sizeof id;
    int failure = mallctl("arenas.lookup", &id, &size, &address, sizeof address);

    return failure == 0 ? id : (unsigned)-failure;
}

// What nobody would know the number of is not made, and the length says that nothing was read.
static void must_be_read(const char *name) {
    unsigned char number[16];
    size_t size = sizeof number;

    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl(name, number, &size, NULL, 0), EINVAL);
    CHECK_SAY(size == 0, "%s: %zu", name, size);
    size = sizeof number;
    CHECK_EQ(mallctl(name, NULL, &size, NULL, 0), EINVAL);
    CHECK_SAY(size == 0, "%s, no buffer: %zu", name, size);
}

void test_caches(void) {
    unsigned one = create("tcache.create"), two = create("tcache.create");
    unsigned arena = own_arena();
    void *object;

    saw("tcache.create");
    saw("tcache.flush");
    saw("tcache.destroy");
    CHECK(one != two);
    must_be_read("tcache.create");
    for (int i = 0; i < 100; i++)
        dallocx(mallocx(640, MALLOCX_TCACHE(one)), MALLOCX_TCACHE(one));
    SET_OK("tcache.flush", unsigned, one);
    SET_OK("tcache.destroy", unsigned, one);
    CHECK_EQ(SET("tcache.flush", unsigned, one), EFAULT);
    CHECK_EQ(create("tcache.create"), one); // the last freed first
    SET_OK("tcache.destroy", unsigned, one);
    SET_OK("tcache.destroy", unsigned, two);
    saw("thread.tcache.enabled");
    CHECK_EQ(get("thread.tcache.enabled"), 1);
    SET_OK("thread.tcache.enabled", bool, false);
    CHECK_EQ(get("thread.tcache.enabled"), 0);
    CHECK_EQ(mallctl("thread.tcache.flush", NULL, NULL, NULL, 0), EFAULT);
    object = malloc(640);
    saw("arenas.lookup");
    CHECK_EQ(lookup(object), arena);
    CHECK_EQ(lookup(&object), (unsigned)-EINVAL);
    free(object);
    SET_OK("thread.tcache.enabled", bool, true);
    CHECK_EQ(get("thread.tcache.enabled"), 1);
}

// Beyond it each object is a page run that is made and given back.
static uint64_t made_by_pairs(void) {
    uint64_t before = fresh("stats.arenas.4096.large.nmalloc");

    for (int i = 0; i < 100; i++) {
        void *volatile object = malloc(20000);

        free(object);
    }
    return fresh("stats.arenas.4096.large.nmalloc") - before;
}

void test_thread_cache_max(void) {
    size_t most = get("arenas.tcache_max");

    saw("thread.tcache.max");
    CHECK_EQ(get("thread.tcache.max"), most);
    if (strcmp(text("opt.front"), "cpu") == 0) {
        CHECK_EQ(SET("thread.tcache.max", size_t, 4000), EFAULT);
        return;
    }
    SET_OK("thread.tcache.max", size_t, 4000);
    CHECK_EQ(get("thread.tcache.max"), 4096);
    CHECK(made_by_pairs() >= 100);
    SET_OK("thread.tcache.max", size_t, 0);
    CHECK_EQ(get("thread.tcache.max"), 8);
    SET_OK("thread.tcache.max", size_t, SIZE_MAX);
    CHECK_EQ(get("thread.tcache.max"), most);
    CHECK(made_by_pairs() < 100);
}

static extent_hooks_t *plain_hooks;
static unsigned chunks_asked;

static void *counting_alloc(extent_hooks_t *hooks, void *address, size_t size, size_t align, bool *zero, bool *commit, unsigned arena) {
    (void)hooks;
    chunks_asked++;
    return plain_hooks->alloc(plain_hooks, address, size, align, zero, commit, arena);
}

void test_arenas(void) {
    static extent_hooks_t hooks, *own = &hooks;
    extent_hooks_t *then;
    unsigned before = (unsigned)get("arenas.narenas"), id, first = own_arena(), again;
    size_t size = sizeof plain_hooks, lengths = sizeof id;
    void *objects[64];

    saw("arenas.narenas");
    saw("arenas.create");
    must_be_read("arenas.create");
    must_be_read("experimental.arenas_create_ext");
    must_be_read("experimental.batch_alloc");
    CHECK_EQ(get("arenas.narenas"), before);
    id = create("arenas.create");
    CHECK_EQ(get("arenas.narenas"), before + 1);
    CHECK_EQ(id, before);
    CHECK_EQ(mallctl(with("arena.<>.purge", before + 2, 0), NULL, NULL, NULL, 0), ENOENT);
    CHECK_EQ(mallctl(with("arena.<>.purge", before + 1, 0), NULL, NULL, NULL, 0), 0); // that number means all
    saw("arena.<>.extent_hooks");
    CHECK_EQ(mallctl(with("arena.<>.extent_hooks", id, 0), &plain_hooks, &size, NULL, 0), 0);
    hooks = *plain_hooks;
    hooks.alloc = counting_alloc;
    CHECK_EQ(mallctl(with("arena.<>.extent_hooks", id, 0), NULL, NULL, &own, sizeof own), 0);
    for (int i = 0; i < 64; i++)
        objects[i] = mallocx(i % 2 ? 640 : 100000, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);
    CHECK(chunks_asked > 0);
    CHECK_EQ(lookup(objects[1]), id);
    CHECK_EQ(fresh(with("stats.arenas.<>.bins.<>.curregs", id, SMALL_BIN)), 32);
    CHECK(get(with("stats.arenas.<>.large.allocated", id, 0)) >= 32 * 100000);
    saw("arena.<>.reset");
    ACT(with("arena.<>.reset", id, 0));
    CHECK_EQ(fresh(with("stats.arenas.<>.bins.<>.curregs", id, SMALL_BIN)), 0);
    CHECK_EQ(get(with("stats.arenas.<>.large.allocated", id, 0)), 0);
    CHECK_EQ(get(with("stats.arenas.<>.bins.<>.nmalloc", id, SMALL_BIN)), get(with("stats.arenas.<>.bins.<>.ndalloc", id, SMALL_BIN)));
    CHECK_EQ(mallctl(with("arena.<>.reset", first, 0), NULL, NULL, NULL, 0), EFAULT);
    saw("thread.arena");
    SET_OK("thread.arena", unsigned, id);
    CHECK_EQ(get("thread.arena"), id);
    CHECK_EQ(lookup(objects[0] = malloc(640)), id);
    free(objects[0]);
    CHECK_EQ(mallctl(with("arena.<>.destroy", id, 0), NULL, NULL, NULL, 0), EFAULT); // this thread is bound to it
    SET_OK("thread.arena", unsigned, first);
    saw("arena.<>.destroy");
    CHECK_EQ(get("arena.4097.initialized"), 0);
    SET_OK(with("arena.<>.dss", id, 0), const char *, "primary");
    ACT(with("arena.<>.destroy", id, 0));
    CHECK_EQ(get(with("arena.<>.initialized", id, 0)), 0);
    CHECK_EQ(get("arena.4097.initialized"), 1);
    CHECK(fresh("stats.arenas.4097.small.nmalloc") >= 32);
    CHECK_EQ(mallctl(with("stats.arenas.<>.pactive", id, 0), objects, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl(with("stats.arenas.<>.extent_avail", id, 0), objects, &size, NULL, 0), ENOENT); // nor is what is always 0
    CHECK_EQ(mallctl(with("stats.arenas.<>.mutexes.decay_dirty.num_ops", id, 0), objects, &size, NULL, 0), ENOENT);
    CHECK_EQ(mallctl(with("stats.arenas.<>.hpa_shard.npurges", id, 0), objects, &size, NULL, 0), ENOENT);
    again = create("arenas.create");
    CHECK_EQ(again, id);
    CHECK_EQ(strcmp(text(with("arena.<>.dss", again, 0)), "disabled"), 0);
    CHECK_EQ(fresh(with("stats.arenas.<>.large.nmalloc", again, 0)), 0);
    CHECK_EQ(get(with("stats.arenas.<>.small.nmalloc", again, 0)), 0);
    CHECK_EQ(mallctl(with("arena.<>.extent_hooks", again, 0), &then, &size, NULL, 0), 0);
    CHECK(then == plain_hooks); // and not those of the one before
    CHECK_EQ(get("arenas.narenas"), before + 1);
    ACT(with("arena.<>.destroy", again, 0));
    chunks_asked = 0;
    CHECK_EQ(mallctl("arenas.create", &id, &lengths, &own, sizeof own), 0);
    objects[0] = mallocx(640, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);
    CHECK(chunks_asked > 0);
    ACT(with("arena.<>.destroy", id, 0));
    struct { extent_hooks_t *hooks; bool metadata; } configuration = { own, false };
    CHECK_EQ(mallctl("experimental.arenas_create_ext", &id, &lengths, &configuration, sizeof configuration), 0);
    chunks_asked = 0;
    objects[0] = mallocx(640, MALLOCX_ARENA(id) | MALLOCX_TCACHE_NONE);
    CHECK(chunks_asked > 0);
    CHECK_EQ(get(with("arena.<>.dirty_decay_ms", id, 0)), get("arenas.dirty_decay_ms")); // which test_decay has set
    ACT(with("arena.<>.destroy", id, 0));
}

// What jemalloc 5.3.1 has beyond 5.3.0.
void test_newer(void) {
    char buffer[32], *to = buffer;
    const char *name = "a name that is longer than thirty-one characters";
    size_t size = sizeof to;
    unsigned id = create("arenas.create");
    uint64_t before = get("approximate_stats.active");
    void *object;

    CHECK_EQ(mallctl(with("arena.<>.name", id, 0), &to, &size, &name, sizeof name), 0);
    CHECK_EQ(strncmp(buffer, "manual_", 7), 0);
    CHECK_EQ(mallctl(with("arena.<>.name", id, 0), &to, &size, NULL, 0), 0);
    CHECK(strncmp(buffer, name, 31) == 0 && buffer[31] == '\0');
    CHECK_EQ(mallctl("arena.0.name", &to, &size, NULL, 0), 0);
    CHECK_EQ(strcmp(buffer, "auto_0"), 0);
    ACT(with("arena.<>.destroy", id, 0));
    CHECK_EQ(create("arenas.create"), id);
    CHECK_EQ(mallctl(with("arena.<>.name", id, 0), &to, &size, NULL, 0), 0);
    CHECK_EQ(strncmp(buffer, "manual_", 7), 0); // the number is another arena's, the name is gone
    ACT(with("arena.<>.destroy", id, 0));
    CHECK_EQ(get("arenas.hugepage"), 2 << 20);
    object = malloc(LARGE);
    CHECK_EQ(get("approximate_stats.active"), before + LARGE);
    free(object);
}

void test_utilization(void) {
    struct { void *lowest; size_t free_count, count, bytes, bin_free, bin_count; } one;
    size_t three[2][3], size = sizeof one;
    void *objects[2] = { malloc(640), malloc(100000) };
    struct { void **objects; size_t count, size; int flags; } batch;
    void *many[10] = { 0 };
    size_t made, length = sizeof made;

    saw("experimental.utilization.query");
    saw("experimental.utilization.batch_query");
    CHECK_EQ(mallctl("experimental.utilization.query", &one, &size, &objects[0], sizeof(void *)), 0);
    CHECK_EQ(one.count, get(with("arenas.bin.<>.nregs", SMALL_BIN, 0)));
    CHECK_EQ(one.bytes, get(with("arenas.bin.<>.slab_size", SMALL_BIN, 0)));
    CHECK(one.free_count < one.count && one.bin_free <= one.bin_count);
    size = sizeof three;
    CHECK_EQ(mallctl("experimental.utilization.batch_query", three, &size, objects, sizeof objects), 0);
    CHECK(three[0][0] == one.free_count && three[0][1] == one.count && three[0][2] == one.bytes);
    CHECK(three[1][0] == 0 && three[1][1] == 1 && three[1][2] == malloc_usable_size(objects[1]));
    size = sizeof three - 1;
    CHECK_EQ(mallctl("experimental.utilization.batch_query", three, &size, objects, sizeof objects), EINVAL);
    free(objects[0]);
    free(objects[1]);
    batch.objects = many;
    batch.count = 10;
    batch.size = 100;
    batch.flags = MALLOCX_ZERO;
    CHECK_EQ(mallctl("experimental.batch_alloc", &made, &length, &batch, sizeof batch), 0);
    CHECK_EQ(made, 10);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(*(char *)many[i], 0);
        free(many[i]);
    }
    for (size_t size_asked = 0; size_asked <= 5000; size_asked += 2500) {
        batch.size = size_asked;
        batch.flags = 0;
        CHECK_EQ(mallctl("experimental.batch_alloc", &made, &length, &batch, sizeof batch), 0);
        CHECK_EQ(made, 10);
        for (int i = 0; i < 10; i++) {
            CHECK_LE(size_asked, malloc_usable_size(many[i]));
            memset(many[i], i, size_asked);
        }
        for (int i = 0; i < 10; i++) {
            CHECK(size_asked == 0 || *(char *)many[i] == i);
            free(many[i]);
        }
    }
    batch.size = SIZE_MAX / 2 + 2; // not one
    CHECK_EQ(mallctl("experimental.batch_alloc", &made, &length, &batch, sizeof batch), 0);
    CHECK_EQ(made, 0);
}

static jmp_buf told;

static void told_of_misuse(const char *line) {
    CHECK(strstr(line, "double free") != NULL || strstr(line, "not") != NULL);
    longjmp(told, 1);
}

void test_safety(void) {
    void (*handler)(const char *) = told_of_misuse;
    static int outside;

    saw("experimental.hooks.safety_check_abort");
    CHECK_EQ(mallctl("experimental.hooks.safety_check_abort", NULL, NULL, &handler, sizeof handler), 0);
    if (setjmp(told) == 0) {
        void *volatile address = &outside;
        free(address);
        CHECK(!"reached");
    }
    handler = NULL;
    CHECK_EQ(mallctl("experimental.hooks.safety_check_abort", NULL, NULL, &handler, sizeof handler), 0);
}
