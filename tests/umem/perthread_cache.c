// UMEM_OPTIONS=perthread_cache=SIZE: whatever a thread allocates and frees, of its own or of others', its magazines come to hold no
// more, and they are of use. `perthread_cache LEAST MOST`: the bytes between which the most lies that they could hold at any time.
// SPDX-License-Identifier: BSD-2-Clause
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <umem.h>

#include "heap/front.h"
#include "heap/loaded.h"
#include "unit.h"

enum { OBJECTS = 400, ROUNDS = 4, LARGEST = 56 * 1024, STEP = 5 };

static void *objects[OBJECTS];
static size_t most_room, most_held;

static size_t room_of(const struct magazine *magazine) {
    return magazine == NULL ? 0 : magazine->capacity;
}

static size_t outbound_rounds(const struct outbound *outbound) {
    return outbound->magazine == NULL || outbound->top == FRONT_CLOSED ? 0 : (size_t)(outbound->top - outbound->magazine->round);
}

static void look(void) {
    const struct front *front = words.front;
    size_t room = 0, held = 0;

    for (unsigned class = 1; class < CLASSES; class ++) {
        const struct outbound *outbound = &front->outbound[class];

        room += (room_of(front->loaded[class]) + room_of(front->previous[class]) + room_of(outbound->magazine) +
                 front_has_ahead(front, class)) *
                class_size(class);
        held += (front_rounds(front, class) + front->previous_rounds[class] + outbound_rounds(outbound)) * class_size(class);
    }
    CHECK_LE(held, room);
    most_room = room > most_room ? room : most_room;
    most_held = held > most_held ? held : most_held;
}

static void *take_all(void *size) {
    for (int i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = umem_alloc(*(size_t *)size, UMEM_DEFAULT)) != NULL);
    return NULL;
}

static void *take_and_free(void *size) {
    take_all(size);
    for (int i = 0; i < OBJECTS; i++)
        umem_free(objects[i], *(size_t *)size);
    return NULL;
}

static void free_all(size_t size) {
    for (int i = 0; i < OBJECTS; i++) {
        umem_free(objects[i], size);
        if (i % STEP == 0)
            look();
    }
}

static void in_thread(void *(*function)(void *), size_t size) {
    pthread_t thread;

    CHECK_EQ(pthread_create(&thread, NULL, function, &size), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

int main(int count, char **arguments) {
    CHECK_EQ(count, 3);
    umem_free(umem_alloc(8, UMEM_DEFAULT), 8);
    CHECK(words.front != NULL);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t size = 8; size <= LARGEST; size += size / 4 + 8) {
            in_thread(take_and_free, size); // magazines of other fronts in the depots
            take_all(&size);
            look();
            free_all(size);
            in_thread(take_all, size);
            free_all(size);
        }
    printf("room for %zu bytes at most, %zu held\n", most_room, most_held);
    CHECK_LE(strtoull(arguments[1], NULL, 10), most_held);
    CHECK_LE(most_room, strtoull(arguments[2], NULL, 10));
    return 0;
}
