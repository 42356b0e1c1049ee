// Fragmentation over time: the program holds the same number of bytes all the time while the sizes that it asks for drift.
//
//   drift SECONDS LIVE_MIB OPERATIONS_PER_SECOND
//
// Objects die at random; each is replaced by one of the sizes of the moment: a mix whose middle wanders between 24 bytes and 6 KiB, and
// one in 200 is a buffer of 16 to 256 KiB. Two threads; one object in eight is freed by the other. What is done at each moment is the same
// for all allocators: a thread that is ahead waits, one that is behind makes up for it. One line of JSON a second.
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

#include <math.h>
#include <stdatomic.h>

enum { THREADS = 2, SLOTS_MOST = 1 << 21, EXCHANGE = 64 };

struct slot {
    void *object;
    size_t bytes;
};

static struct {
    double seconds, began;
    size_t live_target;
    long rate;
    _Atomic(void *) exchange[EXCHANGE]; // objects on their way to whoever comes next
    atomic_size_t live, operations;
} shared;

static size_t size_now(double when, uint64_t *random) {
    const uint64_t word = program_random(random);
    if (word % 200 == 0) return (16 << 10) + (word >> 16) % (240 << 10);
    const double middle = 8.6 + 4.0 * sin(when / shared.seconds * 4 * 3.14159265358979); // log2: 24 bytes to 6 KiB, two waves
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += (double)((word >> (8 + 12 * i)) & 0xfff) / 4096.0 - 0.5;
    return (size_t)exp2(fmin(fmax(middle + 2 * sum, 3), 14));
}

static void give_away(void *object, uint64_t *random) {
    free(atomic_exchange(&shared.exchange[program_random(random) % EXCHANGE], object));
}

static void drop(struct slot *slot, uint64_t *random) {
    if (program_random(random) % 8 == 0) give_away(slot->object, random);
    else free(slot->object);
}

// Replaces random slots; the number of slots follows the sizes so that the bytes stay the same.
static void work(unsigned number, void *argument) {
    (void)argument;
    struct slot *const slots = program_table((SLOTS_MOST / THREADS) * sizeof *slots);
    const size_t target = shared.live_target / THREADS;
    size_t count = 0, live = 0;
    uint64_t random = program_seed(number);
    const double step = 64.0 * THREADS / (double)shared.rate;
    for (double when = 0; when < shared.seconds; when += step) {
        const double early = when - (program_now() - shared.began);
        if (early > 0.002) program_sleep(early);
        for (int i = 0; i < 64; i++) {
            const size_t bytes = size_now(when, &random);
            while (count > 0 && (live + bytes > target || count == SLOTS_MOST / THREADS)) {
                struct slot *const victim = &slots[program_random(&random) % count];
                live -= victim->bytes;
                drop(victim, &random);
                *victim = slots[--count];
            }
            slots[count++] = (struct slot){program_touch(malloc(bytes), bytes), bytes};
            live += bytes;
        }
        atomic_fetch_add(&shared.operations, 64);
        if (number == 0) atomic_store(&shared.live, live * THREADS);
    }
    for (size_t i = 0; i < count; i++) free(slots[i].object);
}

static void *watch(void *argument) {
    const size_t own = *(const size_t *)argument;
    for (double next = 1; next < shared.seconds; next += shared.seconds > 100 ? 1 : 0.25) {
        program_sleep(fmax(next - (program_now() - shared.began), 0));
        const size_t live = atomic_load(&shared.live), resident = program_resident();
        printf("{\"seconds\":%.2f,\"live_bytes\":%zu,\"resident_bytes\":%zu,\"operations\":%zu}\n", program_now() - shared.began, live, resident - own, atomic_load(&shared.operations));
    }
    return NULL;
}

int main(int count, char **words) {
    shared.seconds = (double)program_number(words, count, 1, 600);
    shared.live_target = (size_t)program_number(words, count, 2, 128) << 20;
    shared.rate = program_number(words, count, 3, 1000000);
    shared.began = program_now();
    size_t own = program_resident() + SLOTS_MOST * sizeof(struct slot);
    static char buffer[1 << 16]; // stdio's own, so that printf does not allocate
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch, &own) != 0) errx(2, "no thread");
    program_threads(THREADS, work, NULL);
    pthread_join(watcher, NULL);
}
