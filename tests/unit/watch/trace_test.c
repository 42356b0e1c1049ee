// A trace while its chunks are written: a handler that forks, or leaves by a jump; who stops it, and begins another one, just before and just behind a chunk;
// a fork while another thread is at it, and one after it came to its limit.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../support/child.h"
#include "heap/sampling.h"
#include "unit.h"
#include "vmag/trace_format.h"
#include "watch/trace_file.h"

enum { PAIRS = 10000 /* more than a chunk */, HANG_SECONDS = 300 };

static char folder[] = "/tmp/vmag-trace-XXXXXX";
static volatile enum { NOTHING, FORK, JUMP, STOP_BEFORE, STOP_BEHIND, WAIT } wish; // once, at the next chunk; the last at the next one of facts
static volatile unsigned chunks, facts; // written
static struct {
    uint64_t events, stacks, maps; // a bit for each sequence of events, and of facts that begin with these
    uint32_t pid, thread;          // of the last events
} written;
static volatile bool forked;
static jmp_buf outside;
static pthread_barrier_t barrier;

// As if it came at this moment, in a handler or in another thread.
static bool comes(int what) {
    if (wish != (unsigned)what)
        return false;
    wish = NOTHING;
    return true;
}

bool __real_os_file_write_at(int file, const char *bytes, size_t size, uint64_t offset);
bool __wrap_os_file_write_at(int file, const char *bytes, size_t size, uint64_t offset);
bool __wrap_os_file_write_at(int file, const char *bytes, size_t size, uint64_t offset) {
    struct vmag_trace_chunk head;

    memcpy(&head, bytes, sizeof head);
    chunks += head.kind != VMAG_TRACE_FACTS;
    facts += head.kind == VMAG_TRACE_FACTS;
    if (head.kind == VMAG_TRACE_FACTS)
        *(bytes[sizeof head] == VMAG_TRACE_STACK ? &written.stacks : &written.maps) |= 1ull << head.sequence % 64;
    else {
        written.events |= 1ull << head.sequence % 64;
        written.pid = head.pid;
        written.thread = head.thread;
    }
    if (comes(FORK)) {
        pid_t child = fork();

        forked = child == 0;
        if (child > 0)
            expect_child(child);
    }
    if (comes(JUMP))
        longjmp(outside, 1);
    if (head.kind == VMAG_TRACE_FACTS && comes(WAIT)) {
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    }
    return __real_os_file_write_at(file, bytes, size, offset);
}

uint64_t __real_trace_file_enter(void);
uint64_t __wrap_trace_file_enter(void);
uint64_t __wrap_trace_file_enter(void) {
    if (comes(STOP_BEFORE)) {
        tracing_stop(false);
        CHECK(tracing_start());
    }
    return __real_trace_file_enter();
}

bool __real_trace_file_leave(uint64_t entered);
bool __wrap_trace_file_leave(uint64_t entered);
bool __wrap_trace_file_leave(uint64_t entered) {
    bool left = __real_trace_file_leave(entered);

    if (comes(STOP_BEHIND))
        tracing_stop(false);
    return left;
}

static _Thread_local unsigned waits;

void __real_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms);
void __wrap_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms);
void __wrap_os_word_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ms) {
    waits++;
    __real_os_word_wait(word, value, timeout_ms);
}

static void allocate(void) {
    void *volatile object = malloc(100);

    free(object);
}

static void begin(int what) {
    CHECK(tracing_start());
    wish = what;
    chunks = 0;
}

static void fill_a_chunk(void) {
    for (int i = 0; i < PAIRS && wish != NOTHING; i++)
        allocate();
    CHECK(wish == NOTHING);
}

// There is no writer that it would wait for.
static void stop_soon(void) {
    waits = 0;
    tracing_stop(false);
    CHECK_EQ(waits, 0);
}

// The child's thread goes on with the chunk, which is not of its file.
static void a_handler_may_fork(void) {
    begin(FORK);
    fill_a_chunk();
    stop_soon();
    if (forked)
        _exit(0);
}

static void a_handler_may_jump(void) {
    begin(JUMP);
    if (setjmp(outside) == 0)
        fill_a_chunk();
    tracing_stop(false);
    begin(NOTHING);
    stop_soon();
}

static void chunks_are_written_once(void) {
    begin(STOP_BEHIND);
    fill_a_chunk();
    CHECK_EQ(chunks, 1);
    begin(STOP_BEFORE);
    fill_a_chunk();
    CHECK_EQ(chunks, 1); // by who stopped, in the file before
    tracing_stop(false);
}

// The parent's file is not the child's to write.
static void at_the_limit_it_may_fork(void) {
    pid_t child;

    tracing_settings.bytes = 2 * VMAG_TRACE_CHUNK;
    begin(NOTHING);
    while (trace_is_on())
        allocate();
    child = fork();
    if (child == 0) {
        chunks = facts = 0;
        tracing_stop(false);
        _exit(chunks + facts != 0);
    }
    expect_child(child);
    tracing_stop(false);
}

static volatile unsigned facts_by_now; // when that thread has filled it; the free behind it may be another chunk's, which the end of the thread writes

static void *fill_a_chunk_too(void *unused) {
    fill_a_chunk();
    facts_by_now = facts;
    return unused;
}

// In the child nobody is at the facts any more, and nobody is waited for.
static void beside_a_writer_it_may_fork(void) {
    pthread_t thread;
    pid_t child;

    pthread_barrier_init(&barrier, NULL, 2);
    begin(WAIT);
    CHECK_EQ(pthread_create(&thread, NULL, fill_a_chunk_too, NULL), 0);
    pthread_barrier_wait(&barrier);
    child = fork();
    if (child == 0) {
        chunks = facts = 0;
        allocate();
        stop_soon();
        _exit(chunks == 0 || facts == 0);
    }
    expect_child(child);
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    tracing_stop(false);
}

// Chunks from 0 on, each once, and all kinds of them.
static void check_whole(void) {
    uint64_t all = written.events | written.stacks | written.maps;

    CHECK(written.events > 0 && written.stacks > 0 && written.maps > 0);
    CHECK((all & (all + 1)) == 0 && all == written.events + written.stacks + written.maps);
    CHECK(written.pid == (uint32_t)getpid() && written.thread == written.pid);
}

static void fill_chunks(unsigned count) {
    memset(&written, 0, sizeof written);
    for (chunks = 0; chunks < count;)
        allocate();
}

// Its file is as good by itself as its parent's, and has the stacks that the parent's has, too.
static void a_childs_is_whole(void) {
    pid_t child;

    tracing_settings.stacks = true;
    begin(NOTHING);
    fill_chunks(1);
    check_whole();
    child = fork();
    if (child == 0) {
        fill_chunks(2);
        stop_soon();
        check_whole();
        _exit(0);
    }
    expect_child(child);
    tracing_stop(false);
    tracing_settings.stacks = false;
}

static __attribute__((noinline)) void *allocate_elsewhere(void) {
    return malloc(200);
}

// Who stops it waits five seconds, and no longer: what a writer then finds is another trace's.
static void a_late_writer_leaves_the_next_trace_alone(void) {
    pthread_t thread;
    unsigned before;

    tracing_settings.stacks = true;
    begin(WAIT);
    CHECK_EQ(pthread_create(&thread, NULL, fill_a_chunk_too, NULL), 0);
    pthread_barrier_wait(&barrier);
    tracing_stop(false);
    begin(NOTHING);
    fill_chunks(1);
    CHECK(written.maps > 0);
    free(allocate_elsewhere()); // whose stack nobody has written yet
    before = facts;
    facts_by_now = 0;
    pthread_barrier_wait(&barrier);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(facts_by_now, before);
    stop_soon();
    CHECK_GT(facts, before);
    tracing_settings.stacks = false;
}

int main(void) {
    free(malloc(1));
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    alarm(HANG_SECONDS);
    at_the_limit_it_may_fork();
    tracing_settings.bytes = 1 << 20;
    a_handler_may_fork();
    a_handler_may_jump();
    beside_a_writer_it_may_fork();
    a_childs_is_whole();
    a_late_writer_leaves_the_next_trace_alone();
    chunks_are_written_once();
    CHECK_EQ(system("rm -r \"$PWD\""), 0);
    return 0;
}
