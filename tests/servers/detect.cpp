// A C++ program that asks at start whether it runs on jemalloc, as folly and others do: weak symbols, then a counter that
// must move with malloc(1). Then it uses what it found: sizes rounded up by nallocx, growth in place, sized deallocation.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

extern "C" {
void *mallocx(size_t, int) __attribute__((weak));
void *rallocx(void *, size_t, int) __attribute__((weak));
size_t xallocx(void *, size_t, size_t, int) __attribute__((weak));
size_t sallocx(const void *, int) __attribute__((weak));
void dallocx(void *, int) __attribute__((weak));
void sdallocx(void *, size_t, int) __attribute__((weak));
size_t nallocx(size_t, int) __attribute__((weak));
int mallctl(const char *, void *, size_t *, void *, size_t) __attribute__((weak));
int mallctlnametomib(const char *, size_t *, size_t *) __attribute__((weak));
int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t) __attribute__((weak));
}

static bool has_all_symbols() {
    return mallocx && rallocx && xallocx && sallocx && dallocx && sdallocx && nallocx && mallctl && mallctlnametomib && mallctlbymib;
}

static volatile uint64_t *allocated_counter() {
    uint64_t *counter = nullptr;
    size_t length = sizeof counter;
    CHECK_EQ(mallctl("thread.allocatedp", &counter, &length, nullptr, 0), 0);
    CHECK(length == sizeof counter && counter != nullptr);
    return counter;
}

// The optimizer must not take the pair of malloc and free out.
static void *volatile sink;

static bool counter_moves() {
    volatile uint64_t *counter = allocated_counter();
    uint64_t before = *counter;
    sink = malloc(1);
    bool moved = *counter != before;
    free(sink);
    return moved;
}

// A vector's storage as folly's fbvector grows it: to what the allocator would give anyway, in place where that is possible.
struct Storage {
    char *bytes = nullptr;
    size_t room = 0, used = 0;

    void grow() {
        size_t wanted = nallocx(room == 0 ? 64 : room * 3 / 2, 0);
        if (room >= 4096 && xallocx(bytes, wanted, 0, 0) == wanted) {
            room = wanted;
            return;
        }
        bytes = static_cast<char *>(rallocx_or_first(wanted));
        room = wanted;
        CHECK_EQ(sallocx(bytes, 0), wanted);
        CHECK_EQ(malloc_usable_size(bytes), wanted);
    }

    void *rallocx_or_first(size_t wanted) { return bytes == nullptr ? mallocx(wanted, 0) : rallocx(bytes, wanted, 0); }

    void push(char byte) {
        if (used == room)
            grow();
        bytes[used++] = byte;
    }

    ~Storage() { sdallocx(bytes, room, 0); }
};

static void use_storage(int seed) {
    Storage storage;
    for (int i = 0; i < 3000000; i++)
        storage.push(static_cast<char>(i * seed));
    for (int i = 0; i < 3000000; i += 7)
        CHECK_EQ(storage.bytes[i], static_cast<char>(i * seed));
}

// Each thread has a counter of its own, which counts what that thread does alone.
static void check_threads() {
    std::atomic<int> moved{ 0 };
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&moved, i] {
            if (counter_moves())
                moved++;
            volatile uint64_t *counter = allocated_counter();
            uint64_t before = *counter;
            std::unique_ptr<char[]> block(new char[100000 * (i + 1)]);
            *static_cast<void *volatile *>(&sink) = block.get();
            uint64_t counted = *counter - before;
            CHECK_EQ(counted, nallocx(100000u * (i + 1), 0));
            use_storage(i + 1);
        });
    for (auto &thread : threads)
        thread.join();
    CHECK_EQ(moved, 4);
}

int main() {
    CHECK_EQ(has_all_symbols(), true);
    CHECK_EQ(counter_moves(), true);
    check_threads();
    std::vector<std::string> strings;
    for (int i = 0; i < 100000; i++)
        strings.push_back(std::string(i % 100, 'x'));
    uint64_t before = *allocated_counter();
    strings = {};
    CHECK_EQ(*allocated_counter(), before);
    puts("on jemalloc's interface");
    return 0;
}
