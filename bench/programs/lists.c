// Lists of a reference-counting runtime, built and mapped (2012): every thread appends to a list, maps it to a new one while the old
// one dies behind it, folds it, and drops it. Each cell and each boxed number is an object of its own, counted with atomics.
//
//   lists THREADS CELLS ROUNDS
//
// "build" keeps all cells of a long list; "map" frees one for each that it makes: the two loops of the 2012 post.
// SPDX-License-Identifier: BSD-2-Clause
#include "program.h"

#include <stdatomic.h>

struct number {
    atomic_uint holders;
    long value;
};
struct cell {
    atomic_uint holders;
    struct number *head;
    struct cell *tail;
};
struct lists {
    long cells, rounds;
};

static void *hold(atomic_uint *holders, void *object) {
    atomic_fetch_add_explicit(holders, 1, memory_order_relaxed);
    return object;
}

static int is_last(atomic_uint *holders) { return atomic_fetch_sub_explicit(holders, 1, memory_order_acq_rel) == 1; }

static void number_drop(struct number *number) {
    if (is_last(&number->holders)) free(number);
}

static struct number *number_new(long value) {
    struct number *const number = malloc(sizeof *number);
    if (number == NULL) errx(2, "no memory");
    *number = (struct number){.holders = 1, .value = value};
    return number;
}

static struct cell *cell_new(struct number *head, struct cell *tail) {
    struct cell *const cell = malloc(sizeof *cell);
    if (cell == NULL) errx(2, "no memory");
    *cell = (struct cell){.holders = 1, .head = head, .tail = tail};
    return cell;
}

static void list_drop(struct cell *list) {
    while (list != NULL && is_last(&list->holders)) {
        struct cell *const tail = list->tail;
        number_drop(list->head);
        free(list);
        list = tail;
    }
}

static struct cell *list_build(long cells) {
    struct cell *list = NULL;
    for (long i = 0; i < cells; i++) list = cell_new(number_new(i), list);
    return list;
}

// Takes the list over: what nobody else holds dies as it is passed.
static struct cell *list_map(struct cell *list) {
    struct cell *mapped = NULL;
    while (list != NULL) {
        struct number *const head = hold(&list->head->holders, list->head);
        mapped = cell_new(number_new(head->value + 1), mapped);
        number_drop(head);
        struct cell *const tail = list->tail == NULL ? NULL : hold(&list->tail->holders, list->tail);
        list_drop(list);
        list = tail;
    }
    return mapped;
}

static long list_sum(const struct cell *list) {
    long sum = 0;
    for (; list != NULL; list = list->tail) sum += list->head->value;
    return sum;
}

static void work(unsigned number, void *argument) {
    (void)number;
    const struct lists *const lists = argument;
    for (long i = 0; i < lists->rounds; i++) {
        struct cell *const list = list_map(list_map(list_map(list_build(lists->cells))));
        if (list_sum(list) != lists->cells * (lists->cells - 1) / 2 + 3 * lists->cells) errx(1, "a list is wrong");
        list_drop(list);
    }
}

int main(int count, char **words) {
    const long threads = program_number(words, count, 1, 4);
    struct lists lists = {program_number(words, count, 2, 200000), program_number(words, count, 3, 10)};
    const double seconds = program_threads((unsigned)threads, work, &lists), cpu = program_seconds(CLOCK_PROCESS_CPUTIME_ID);
    const double objects = 8.0 * (double)(lists.cells * lists.rounds * threads);
    printf("{\"seconds\":%.6f,\"cpu_seconds\":%.6f,\"objects_per_second\":%.0f}\n", seconds, cpu, objects / seconds);
}
