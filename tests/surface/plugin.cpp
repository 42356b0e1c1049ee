// A library in C++ that a program in C opens, for itself alone or for all: what `operator new` does without memory is the C++ library's that came with it.
// SPDX-License-Identifier: BSD-2-Clause
#include <cstddef>
#include <cstdlib>
#include <new>

static int calls;

static void give_up() {
    std::set_new_handler(nullptr);
    calls++;
}

static void throw_it() {
    calls++;
    throw std::bad_alloc();
}

static bool throws(std::size_t bytes) {
    try {
        void *volatile object = ::operator new(bytes);
        ::operator delete(object);
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

// 0: all is as it is to be; else which is not.
extern "C" int plugin() {
    const std::size_t much = static_cast<std::size_t>(1) << 62;
    void *volatile object;

    if (!throws(much))
        return 1;
    std::set_new_handler(give_up);
    if (!throws(much) || calls != 1)
        return 2;
    std::set_new_handler(give_up);
    object = ::operator new(much, std::nothrow);
    if (object != nullptr || calls != 2)
        return 3;
    std::set_new_handler(throw_it);
    object = ::operator new(much, std::nothrow);
    if (object != nullptr || calls != 3)
        return 4;
    object = ::operator new[](much, std::align_val_t(64), std::nothrow);
    if (object != nullptr || calls != 4)
        return 5;
    return throws(much) && calls == 5 ? 0 : 6;
}
