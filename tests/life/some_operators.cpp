// Programs that have one pair of C++ operators of their own, or one operator, or none and only its address. CASE says which:
// NEW: new, which asks for more than it was asked for, and no delete. ARRAYS: new[] and delete[] for larger alignments, whose objects begin behind a mark.
// MOST: all but the sized delete of arrays and, for larger alignments, all but the sized ones; marks again.
// NEXT: new[], which calls the one behind it. ADDRESS: where a program that is not position independent finds an operator is in the program itself.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <cstdlib>
#include <dlfcn.h>
#include <new>

#define NEW 1
#define ARRAYS 2
#define NEXT 3
#define ADDRESS 4
#define MOST 5

static long made, live;

#if CASE == ARRAYS || CASE == MOST
static void *make(std::size_t size, std::size_t mark) {
    made++, live++;
    return static_cast<char *>(std::aligned_alloc(mark, (size + 2 * mark - 1) / mark * mark)) + mark;
}

static void end(void *object, std::size_t mark) {
    live--;
    std::free(static_cast<char *>(object) - mark);
}

void *operator new[](std::size_t size, std::align_val_t align) { return make(size, static_cast<std::size_t>(align)); }
void operator delete[](void *object, std::align_val_t align) noexcept { end(object, static_cast<std::size_t>(align)); }
#endif

#if CASE == NEW
void *operator new(std::size_t size) {
    made++;
    return std::malloc(size + 4096);
}

void *operator new(std::size_t size, std::align_val_t align) {
    auto least = static_cast<std::size_t>(align);
    made++;
    return std::aligned_alloc(least, (size + 4096 + least - 1) / least * least);
}
#elif CASE == MOST
void *operator new(std::size_t size) { return make(size, 16); }
void *operator new[](std::size_t size) { return make(size, 16); }
void *operator new(std::size_t size, const std::nothrow_t &) noexcept { return make(size, 16); }
void *operator new[](std::size_t size, const std::nothrow_t &) noexcept { return make(size, 16); }
void operator delete(void *object) noexcept { end(object, 16); }
void operator delete[](void *object) noexcept { end(object, 16); }
void operator delete(void *object, std::size_t) noexcept { end(object, 16); }
void operator delete(void *object, const std::nothrow_t &) noexcept { end(object, 16); }
void operator delete[](void *object, const std::nothrow_t &) noexcept { end(object, 16); }
void *operator new(std::size_t size, std::align_val_t align) { return make(size, static_cast<std::size_t>(align)); }
void operator delete(void *object, std::align_val_t align) noexcept { end(object, static_cast<std::size_t>(align)); }
#elif CASE == NEXT
void *operator new[](std::size_t size) {
    static void *(*next)(std::size_t);
    if (next == nullptr)
        *reinterpret_cast<void **>(&next) = dlsym(RTLD_NEXT, "_Znam");
    made++;
    return next(size);
}
#elif CASE == ADDRESS
typedef void *Make(std::size_t);
typedef void End(void *);
static Make *const makes[] = { &::operator new, &::operator new[] }; // not volatile: in memory that is not written to, lest the loader fill it in
static End *const ends[] = { &::operator delete, &::operator delete[] };

static void check_addresses() {
    for (std::size_t size = 1; size < 300000; size += size / 4 + 1)
        for (volatile int i = 0; i < 2; i = i + 1) {
            made++;
            ends[i](makes[i](size));
        }
}
#endif

template <int BYTES> struct Plain { char text[BYTES]; ~Plain() { text[0] = 0; } };
template <int BYTES> struct alignas(128) Aligned { char text[BYTES]; ~Aligned() { text[0] = 0; } };

template <typename Object> static Object *seen(Object *object) {
    CHECK(object != nullptr);
    CHECK_EQ(reinterpret_cast<unsigned long>(object) % alignof(Object) % 128, 0);
    asm volatile("" : "+r"(object)); // lest the compiler leave both out
    return object;
}

template <typename Object> static void check() {
    for (int i = 0; i < 100; i++) {
        delete seen(new Object);
        delete seen(new (std::nothrow) Object);
        delete[] seen(new Object[2]);
        delete[] seen(new (std::nothrow) Object[2]);
    }
}

template <template <int> class Kind> static void check_kind() {
    check<Kind<16>>();
    check<Kind<1000>>();
    check<Kind<5000>>();
    check<Kind<70000>>();
    check<Kind<300000>>();
}

int main() {
    check_kind<Plain>();
    check_kind<Aligned>();
#if CASE == ADDRESS
    check_addresses();
#endif
    CHECK_GT(made, 0);
    CHECK_EQ(live, 0);
}
