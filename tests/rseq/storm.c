// Tests the sequences where they are interrupted all the time: a storm of signals whose handler works on the same stacks,
// threads that hop between processors, more threads than processors. No object may be lost or handed out twice.
//
// Objects belong to processors, as those smaller than a line do (heap/cpu_front.h): one that comes back where it does not belong goes
// onto a stack of its own there, which is chosen before the sequence, by what the thread knew then; a thread that hops takes some along. None
// may lie on the first stack of another processor.
//
// Every object has an owner word, changed when it is taken and when it is put back, not atomically lest most signals come there:
// a doubled object is noticed when it is taken or in the count at the end, a lost one in the count. Control: the same with an area
// that the kernel does not know, where nothing is restarted, must go wrong.
// SPDX-License-Identifier: BSD-2-Clause
#include "interruptions.h"
#include "os/rseq.h"
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

enum { SECONDS = 1, ATTEMPTS = 8, THREADS = 4, STACKS_MOST = 64, SLOTS = 64, OBJECTS_EACH = 32, CARRIED = 8 };
enum { OWN = 1, HOMEWARD, STACKS };
enum { HOP_EVERY = 5000 };

struct processor {
    int64_t number; // before the tops
    void **top[STACKS];
    void *stack[STACKS][SLOTS + 2];
} __attribute__((aligned(128)));

static struct processor processors[STACKS_MOST];
static __thread struct processor *mine = &processors[0]; // where this thread was last

static struct object {
    _Atomic int owned;
} objects[STACKS_MOST * OBJECTS_EACH];

static unsigned numbers;
static _Atomic bool over;
static _Atomic long operations, signals_seen, left_over;

static void set_up(void) {
    numbers = os_rseq_numbers();
    if (numbers > STACKS_MOST)
        SKIP("more than %d processors", STACKS_MOST);
    for (unsigned i = 0; i < numbers; i++) {
        struct processor *processor = &processors[i];

        for (unsigned k = 0; k < OBJECTS_EACH; k++)
            processor->stack[OWN][1 + k] = &objects[i * OBJECTS_EACH + k];
        for (unsigned which = OWN; which < STACKS; which++) {
            processor->stack[which][SLOTS + 1] = (void *)UINTPTR_MAX;
            processor->top[which] = &processor->stack[which][1 + (which == OWN ? OBJECTS_EACH : 0)];
        }
        processor->number = i;
    }
}

// Whose it is.
static struct processor *home_of(const struct object *object) {
    return &processors[(size_t)(object - objects) / OBJECTS_EACH];
}

// A signal's handler may change where the thread was last.
static bool pop_here(unsigned which, struct object **object) {
    struct processor *here = mine;
    void *taken;

    if (!rseq_pop(here->top, which, &taken))
        return false;
    *object = taken;
    CHECK(*object >= objects && *object < objects + STACKS_MOST * OBJECTS_EACH);
    CHECK_EQ(home_of(*object) == here, which == OWN);
    return true;
}

static bool pop(unsigned which, struct object **object) {
    if (pop_here(which, object))
        return true;
    mine = &processors[rseq_number()];
    return pop_here(which, object);
}

static bool push_here(struct object *object) {
    struct processor *here = mine;

    return rseq_push(here->top, home_of(object) == here ? OWN : HOMEWARD, object);
}

static bool push(struct object *object) {
    if (push_here(object))
        return true;
    mine = &processors[rseq_number()];
    return push_here(object);
}

static bool take(unsigned which, struct object **object) {
    if (!pop(which, object))
        return false;
    CHECK_EQ(atomic_load_explicit(&(*object)->owned, memory_order_relaxed), 0);
    atomic_store_explicit(&(*object)->owned, 1, memory_order_relaxed);
    return true;
}

static void put_back(struct object *object) {
    CHECK_EQ(atomic_load_explicit(&object->owned, memory_order_relaxed), 1);
    atomic_store_explicit(&object->owned, 0, memory_order_relaxed);
    while (!push(object)) { // full here; the thread will be moved
        if (over) {
            atomic_fetch_add(&left_over, 1);
            return;
        }
        sched_yield();
    }
}

static void on_signal(int number) {
    int saved = errno;
    struct object *object;

    (void)number;
    atomic_fetch_add_explicit(&signals_seen, 1, memory_order_relaxed);
    if (rseq_number() >= 0 && take(OWN, &object))
        put_back(object);
    errno = saved;
}

// An area that nobody registered: the number is true in it, but no sequence is restarted.
static __thread uint32_t unknown_area[8] __attribute__((aligned(32)));
static bool unknown;

static void hop_known(unsigned to) {
    hop(to);
    if (unknown)
        unknown_area[RSEQ_CPU_ID / 4] = (uint32_t)sched_getcpu();
}

// With objects on their way home, of which some are at home there.
static void hop_with_some(unsigned to) {
    struct object *carried[CARRIED];
    int count = 0;

    while (count < CARRIED && take(HOMEWARD, &carried[count]))
        count++;
    hop_known(to);
    while (count > 0)
        put_back(carried[--count]);
}

static void *work(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument, cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    timer_t timer;
    long done = 0;

    hop_known(self % cpus);
    timer = storm_begin();

    for (; !over; done++) {
        struct object *held[4];
        int count = 0;

        while (count < 4 && take(OWN, &held[count]))
            count++;
        if (done % HOP_EVERY == 0)
            hop_with_some((unsigned)(done / HOP_EVERY + self) % cpus);
        while (count > 0)
            put_back(held[--count]);
    }
    timer_delete(timer);
    atomic_fetch_add(&operations, done);
    return NULL;
}

static size_t count_stack(const struct processor *processor, unsigned which) {
    static bool there[STACKS_MOST * OBJECTS_EACH];
    void *const *first = &processor->stack[which][1];

    for (void *const *at = first; at < processor->top[which]; at++) {
        size_t number = (size_t)((struct object *)*at - objects);

        CHECK(number < numbers * OBJECTS_EACH && !there[number]);
        CHECK_EQ(home_of(*at) == processor, which == OWN);
        there[number] = true;
    }
    return (size_t)(processor->top[which] - first);
}

static void count(void) {
    size_t found = 0;

    for (unsigned i = 0; i < numbers; i++)
        found += count_stack(&processors[i], OWN) + count_stack(&processors[i], HOMEWARD);
    CHECK_EQ(found + (size_t)left_over, numbers * OBJECTS_EACH);
}

static void run(void) {
    pthread_t threads[THREADS];
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

    set_up();
    sigaction(SIGUSR1, &action, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (struct timespec rest = { SECONDS, 0 }; nanosleep(&rest, &rest) != 0;)
        ;
    over = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    count();
    printf("%ld rounds, %ld signals\n", (long)operations, (long)signals_seen);
}

static void run_unrestarted(void) {
    unknown = true;
    os_rseq_area = (char *)unknown_area - (char *)rseq_field(0);
    close(STDERR_FILENO);
    alarm(SECONDS + 5);
    run();
}

static bool goes_wrong(void (*body)(void)) {
    pid_t child = fork();
    int status;

    if (child == 0) {
        body();
        fflush(stdout);
        _exit(0);
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    return status != 0;
}

static void control(void) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++)
        if (goes_wrong(run_unrestarted))
            return;
    SKIP("nothing went wrong although nothing was restarted: on this machine the test shows nothing");
}

int main(void) {
    if (!os_rseq_init())
        SKIP("no restartable sequences here");
    CHECK(!goes_wrong(run));
    control();
    return 0;
}
