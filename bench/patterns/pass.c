// prodcons, xmalloc: objects that another thread frees than the one that allocated them.
//
// A channel is a ring of messages for one sender and one receiver; a message is `per_message` objects. Each side
// looks at the other's counter only when the ring seems full or empty, so that the ring costs little: with one object
// a message, most of the time would be the caches' talk about the ring, not the allocator.
// prodcons: one channel, a producer and a consumer, 16 objects a message. xmalloc: each thread sends to the next one in a
// circle and frees what comes from the one before, so everybody frees only what others allocated; 128 objects a
// message. At most `slots` messages are on the way in a channel. One operation is one malloc and its free.
// The receiver reads each object before it frees it.
// SPDX-License-Identifier: BSD-2-Clause
#include "crew.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

struct message {
    uint64_t bytes;
    uint64_t *objects[];
};

struct channel {
    // Constant.
    char *ring;
    uint64_t capacity;
    uint64_t per_message;
    uint64_t message_bytes;
    // The sender's; the receiver reads `sent`.
    _Alignas(128) _Atomic uint64_t sent;
    uint64_t received_seen;
    uint64_t bytes_sent;
    // The receiver's; the sender reads `received` and `bytes_received`.
    _Alignas(128) _Atomic uint64_t received;
    _Atomic uint64_t bytes_received;
    uint64_t sent_seen;
};

static uint64_t get(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_acquire);
}

// Only the counter's owner calls this.
static void advance(_Atomic uint64_t *counter, uint64_t by) {
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by, memory_order_release);
}

static struct message *channel_message(const struct channel *channel, uint64_t number) {
    return (struct message *)(channel->ring + number % channel->capacity * channel->message_bytes);
}

// Notes what is on the way whenever the ring seems full, which is when it is most.
static bool channel_has_room(struct worker *worker, struct channel *channel) {
    if (channel->sent - channel->received_seen == channel->capacity) {
        const uint64_t held = channel->bytes_sent - get(&channel->bytes_received);
        if (held > worker->live_peak) worker->live_peak = held;
        channel->received_seen = get(&channel->received);
    }
    return channel->sent - channel->received_seen < channel->capacity;
}

static bool channel_has_mail(struct channel *channel) {
    if (channel->received == channel->sent_seen) channel->sent_seen = get(&channel->sent);
    return channel->received != channel->sent_seen;
}

static void send_message(struct worker *worker, struct channel *channel) {
    struct message *const message = channel_message(channel, channel->sent);
    message->bytes = 0;
    for (uint64_t i = 0; i < channel->per_message; i++) {
        const uint32_t bytes = random_between((uint32_t)random_next(&worker->random), worker->pattern->smallest, worker->pattern->largest);
        message->objects[i] = malloc(bytes);
        touch(message->objects[i], bytes);
        message->bytes += bytes;
    }
    channel->bytes_sent += message->bytes;
    worker->operations_done += channel->per_message;
    advance(&channel->sent, 1);
}

static void receive_message(struct channel *channel) {
    const struct message *const message = channel_message(channel, channel->received);
    for (uint64_t i = 0; i < channel->per_message; i++) {
        if (*message->objects[i] == 0) fail("an object changed on its way");
        free(message->objects[i]);
    }
    advance(&channel->bytes_received, message->bytes);
    advance(&channel->received, 1);
}

// Waits for the other side without keeping the CPU from it.
static void wait_a_moment(unsigned *waited) {
    if (++*waited % 64 == 0) sched_yield();
}

static struct channel *channels_make(struct bench *bench, unsigned count, unsigned per_message) {
    struct channel *const channels = own_memory(bench, count * sizeof *channels);
    for (unsigned i = 0; i < count; i++) {
        channels[i].capacity = bench->pattern->slots;
        channels[i].per_message = per_message;
        channels[i].message_bytes = sizeof(struct message) + per_message * sizeof(uint64_t *);
        channels[i].ring = own_memory(bench, channels[i].capacity * channels[i].message_bytes);
    }
    return channels;
}

// The first worker produces, the second consumes.
static void queue_work(struct worker *worker) {
    struct channel *const channel = worker->state;
    const bool producer = worker->index == 0;
    const uint64_t messages = worker->bench->operations / channel->per_message;
    unsigned waited = 0;
    for (uint64_t i = 0; i < messages; i++) {
        while (producer ? !channel_has_room(worker, channel) : !channel_has_mail(channel)) wait_a_moment(&waited);
        if (producer) {
            send_message(worker, channel);
        } else {
            receive_message(channel);
        }
    }
}

void run_pass_queue(struct bench *bench) {
    struct channel *const channel = channels_make(bench, 1, 16);
    crew_run(bench, &(struct crew_work){.work = queue_work}, (void *[]){channel, channel});
}

struct station {
    struct channel *in;
    struct channel *out;
};

// Sends its share and receives as much; while the channel ahead is full it goes on emptying the one behind.
static void station_work(struct worker *worker) {
    const struct station *const station = worker->state;
    const uint64_t messages = worker->operations / station->in->per_message;
    unsigned waited = 0;
    while (station->out->sent < messages || station->in->received < messages) {
        const bool can_send = station->out->sent < messages && channel_has_room(worker, station->out);
        if (can_send) send_message(worker, station->out);
        const bool can_receive = channel_has_mail(station->in);
        if (can_receive) receive_message(station->in);
        if (!can_send && !can_receive) wait_a_moment(&waited);
    }
}

void run_pass_around(struct bench *bench) {
    static void *states[most_threads];
    const unsigned threads = bench->pattern->threads;
    struct channel *const channels = channels_make(bench, threads, 128);
    struct station *const stations = own_memory(bench, threads * sizeof *stations);
    for (unsigned i = 0; i < threads; i++) {
        stations[i] = (struct station){.in = &channels[i], .out = &channels[(i + 1) % threads]};
        states[i] = &stations[i];
    }
    crew_run(bench, &(struct crew_work){.work = station_work}, states);
}
