// operator new without memory: bad_alloc, nullptr for nothrow, the new_handler called again and again until it helps.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"

#include <initializer_list>
#include <new>

static const std::size_t impossible = std::size_t{1} << 60;
static volatile std::size_t wanted;
static int handler_calls;

template <class Allocate> static bool throws_bad_alloc(Allocate allocate) {
    try {
        allocate();
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

static void check_throws(std::size_t size) {
    wanted = size;
    CHECK(throws_bad_alloc([] { return ::operator new(wanted); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](wanted); }));
    CHECK(throws_bad_alloc([] { return ::operator new(wanted, std::align_val_t{64}); }));
    CHECK(throws_bad_alloc([] { return ::operator new[](wanted, std::align_val_t{4096}); }));
    CHECK(::operator new(wanted, std::nothrow) == nullptr);
    CHECK(::operator new[](wanted, std::nothrow) == nullptr);
    CHECK(::operator new(wanted, std::align_val_t{64}, std::nothrow) == nullptr);
    CHECK(::operator new[](wanted, std::align_val_t{64}, std::nothrow) == nullptr);
}

// What is no power of two is no alignment, and nothing that a handler could help with.
static volatile std::size_t alignment;

static void check_alignments() {
    std::set_new_handler([] { handler_calls++; });
    for (std::size_t odd : {std::size_t{0}, std::size_t{3}, std::size_t{24}, std::size_t{4097}, ~std::size_t{0}}) {
        alignment = odd;
        CHECK(throws_bad_alloc([] { return ::operator new(10, std::align_val_t{alignment}); }));
        CHECK(throws_bad_alloc([] { return ::operator new[](10, std::align_val_t{alignment}); }));
        CHECK(::operator new(10, std::align_val_t{alignment}, std::nothrow) == nullptr);
        CHECK(::operator new[](10, std::align_val_t{alignment}, std::nothrow) == nullptr);
    }
    CHECK_EQ(handler_calls, 0);
    std::set_new_handler(nullptr);
}

static void gives_up_at_the_third_call() {
    if (++handler_calls == 3)
        std::set_new_handler(nullptr);
}

static void throws_at_the_second_call() {
    if (++handler_calls == 2)
        throw std::bad_alloc();
}

// The standard's way to help: ask for less.  Here the handler makes the request a possible one.
static void check_handler_loops() {
    wanted = impossible;
    handler_calls = 0;
    std::set_new_handler(gives_up_at_the_third_call);
    CHECK(throws_bad_alloc([] { return ::operator new(wanted); }));
    CHECK_EQ(handler_calls, 3);
    handler_calls = 0;
    std::set_new_handler(gives_up_at_the_third_call);
    CHECK(::operator new(wanted, std::nothrow) == nullptr);
    CHECK_EQ(handler_calls, 3);
    handler_calls = 0;
    std::set_new_handler(gives_up_at_the_third_call);
    CHECK(throws_bad_alloc([] { return ::operator new[](wanted, std::align_val_t{128}); }));
    CHECK_EQ(handler_calls, 3);
}

// A handler that throws: the throwing form passes it on, the nothrow form turns it into nullptr.
static void check_handler_throws() {
    std::set_new_handler(throws_at_the_second_call);
    handler_calls = 0;
    CHECK(throws_bad_alloc([] { return ::operator new(wanted); }));
    CHECK_EQ(handler_calls, 2);
    handler_calls = 0;
    CHECK(::operator new(wanted, std::nothrow) == nullptr);
    CHECK_EQ(handler_calls, 2);
    std::set_new_handler(nullptr);
}

int main() {
    check_throws(impossible);
    check_throws(SIZE_MAX);
    check_throws(SIZE_MAX - 100);
    check_throws(PTRDIFF_MAX);
    check_alignments();
    check_handler_loops();
    check_handler_throws();
    void *block = ::operator new(100);
    ::operator delete(block);
    return 0;
}
