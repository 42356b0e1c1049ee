// Reclaim: giving memory back, a step at a time, by threads that come by or by the background thread.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "heap/arena.h"

// What the arena holds that could be given back.
size_t reclaim_garbage(const struct arena *arena);

// Sees to it that the background thread is awake if the arena's garbage and that many bytes more are worth it.
void reclaim_expect(struct arena *arena, size_t more);

// The same for an object cache's garbage, when a front of it misses; obeys observers, too. No lock is held.
void reclaim_expect_bytes(size_t garbage);

// Looks whether the arena has something due. Called with no lock held, on some misses and after large frees.
void reclaim_look(struct arena *arena, uint64_t now_ms);

// One step for all arenas: depots, then dirty pages. True while anything is left that a later step may give back, or while another thread gives back.
// `unseen`: by a thread that the C library does not know of, which calls nothing of the program's and looks at nobody's requests.
bool reclaim_step(uint64_t now_ms, bool unseen);

// Whether anything is left for such a step.
bool reclaim_is_left(bool unseen);

// The same for one arena: what is due, or all that no program holds.
void reclaim_decay(struct arena *arena, uint64_t now_ms);
bool reclaim_arena(struct arena *arena);

// Gives back all that no program holds: depots, empty slabs, dirty pages, of object caches only if nothing of the program is
// called for it. A step under way is waited for, a second at most: what it has in hand is given back, too. True when something was given back.
bool reclaim_everything(void);

// The same, for who wants memory: but for the holes in slabs, which are looked for all over the heap. In pages of the system's they are room for nothing else;
// of a file or a program's hooks they may be what is wanted, and where an arena has such they are given.
bool reclaim_room(void);

// Fork waits for a step under way, for 50 ms at most, lest the child lose what it has in hand. Forks come one at a time. False: it goes on.
bool reclaim_fork_prepare(void);
void reclaim_fork_done(bool child);

enum { RECLAIM_STEP_MS = 150 };

// How often the background thread looked.
extern _Atomic uint64_t reclaim_runs;

// Lets the background thread be started, and starts it; or lets it end, and waits half a second at most until it has.
void reclaim_set_background(bool wanted);

// The background thread sleeps on this word while it holds RECLAIM_ASLEEP; whoever leaves garbage behind wakes it.
enum { RECLAIM_NO_THREAD, RECLAIM_ASLEEP, RECLAIM_AWAKE };
extern _Atomic uint32_t reclaim_state;

// The background thread is one that the C library does not know of (os/unseen.h), while the process has one thread and nothing of the program, and no observer,
// is to be called for what it does. Then whoever finds that this is no more so dismisses it, for one by pthread_create; and so does who changes what
// a thread by itself would keep: the process's user, its hooks. Dismissing waits until it is gone; there is no background thread then until as many recalls,
// with what dismissing returned. It sleeps on reclaim_dismissed between its steps.
extern _Atomic bool reclaim_is_unseen;
extern _Atomic uint32_t reclaim_dismissed; // 0: it may be there
bool reclaim_may_be_unseen(void);
bool reclaim_dismiss(void);
void reclaim_recall(bool dismissed);
bool reclaim_is_shut_out(void); // there is none to dismiss, and will be none: the process is shut in (os/sandbox.h)
void reclaim_send_away(void); // both: it comes again when it is wanted, and not before
void reclaim_replace(bool dismissed); // the same, and one by pthread_create is made if it is that now: not in a handler
void reclaim_unseen_begins(void); // told before it is there
void reclaim_unseen_ended(void);  // told by it at its end
void reclaim_fork_child_dismissals(void); // the child has those of its thread

// The process is about to be shut in: the background thread, of either kind, ends, and is waited for until it has, to the kernel as well: a second at most.
// One by pthread_create says first which it is. In a copy of the process there is none.
void reclaim_shut_in(void);
void reclaim_let_out(void); // the call that was to do so was refused
extern _Atomic int reclaim_thread; // its number; 0: there was none

// Wakes the background thread, if there is one, for what reclaim_is_left tells.
void reclaim_wake(void);

// A thread ends. Once the process's first one has, the background thread looks whether it is the only one left.
void reclaim_thread_ended(bool is_first);
extern _Atomic uint64_t reclaim_ends; // of threads, since the first ended, with its own; 0: it is there

// Starts the background thread on behalf of the code at `caller`; set once by the floor above, NULL: there is none. False:
// not now.
extern bool (*reclaim_start_thread)(const void *caller);

// Starts a thread of the library's own. What the C library allocates for it is not the program's: it is neither sampled nor traced.
bool reclaim_start_unwatched(bool (*start)(const void *caller), const void *caller);
