// A program with operator new and operator delete of its own, and none of the other forms: these go through its own.
//
// Its objects begin behind a mark, as those of programs that count or look for leaks do: what one form makes and another one's free takes is noticed.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace {
constexpr unsigned long MARK = 0x6d61726b6d61726b;
struct alignas(64) Mark { unsigned long mark; };
std::atomic<long> live, made;
bool refuse;

void *made_here(std::size_t size) {
    if (refuse)
        throw std::bad_alloc();
    auto *mark = static_cast<Mark *>(std::aligned_alloc(64, (size + 2 * sizeof(Mark) - 1) / sizeof(Mark) * sizeof(Mark)));
    CHECK(mark != nullptr);
    mark->mark = MARK;
    live++, made++;
    return mark + 1;
}

void ended_here(void *object) {
    if (object == nullptr)
        return;
    auto *mark = static_cast<Mark *>(object) - 1;
    CHECK_EQ(mark->mark, MARK);
    mark->mark = 0;
    live--;
    std::free(mark);
}
}

void *operator new(std::size_t size) { return made_here(size); }
void operator delete(void *object) noexcept { ended_here(object); }
void *operator new(std::size_t size, std::align_val_t) { return made_here(size); }
void operator delete(void *object, std::align_val_t) noexcept { ended_here(object); }

struct Small { char text[40]; };
struct Large { char text[5000]; };
struct alignas(64) Aligned { char text[64]; };
struct Ended { ~Ended() { text.clear(); } std::string text; };

// Each through the program's own, and nothing left.
template <typename Make, typename End> static void check(Make make, End end) {
    long before = made;
    decltype(make()) objects[500];
    for (int round = 0; round < 4; round++) {
        for (auto &object : objects)
            object = make();
        for (auto &object : objects)
            end(object);
    }
    CHECK_EQ(made - before, 2000);
}

template <typename Object> static void check_forms() {
    check([] { return new Object; }, [](Object *object) { delete object; });
    check([] { return new Object[3]; }, [](Object *object) { delete[] object; });
    check([] { return new (std::nothrow) Object; }, [](Object *object) { delete object; });
    check([] { return new (std::nothrow) Object[3]; }, [](Object *object) { delete[] object; });
}

static void check_nothrow() {
    refuse = true;
    CHECK(::operator new(40, std::nothrow) == nullptr); // calls: a compiler may leave out what an expression makes
    CHECK(::operator new[](40, std::nothrow) == nullptr);
    CHECK(::operator new(64, std::align_val_t{64}, std::nothrow) == nullptr);
    refuse = false;
}

static void all() {
    check_forms<Small>();
    check_forms<Large>();
    check_forms<Aligned>();
    check_forms<Ended>(); // arrays of these are deleted with their size
    check([] { return ::operator new(40); }, [](void *object) { ::operator delete(object, std::nothrow); });
    check([] { return ::operator new[](40); }, [](void *object) { ::operator delete[](object, std::size_t{40}); });
    check([] { return ::operator new[](40); }, [](void *object) { ::operator delete[](object, std::nothrow); });
    std::vector<std::string> words;
    for (int i = 0; i < 3000; i++)
        words.push_back(std::string(i % 90, 'x') + std::to_string(i * 7919 % 5003));
    std::stable_sort(words.begin(), words.end());
    CHECK(std::is_sorted(words.begin(), words.end()));
}

int main() {
    long before = live;
    all();
    CHECK_EQ(live, before);
    check_nothrow();
    std::thread(all).join();
    CHECK_EQ(live, before);
    std::thread one(all);
    for (int i = 0; i < 20; i++)
        std::free(std::malloc(1000));
    one.join();
    CHECK_EQ(live, before);
}
