// Objects deleted as their base, which has no virtual destructor and is smaller: wrong, and in squid and povray. Each goes home all the same,
// what is alive stays whole, and memory does not grow.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/resident.h"

#include <cstring>
#include <thread>
#include <vector>

template <int BYTES, int MORE> struct Pair {
    struct Base { char text[BYTES]; };
    struct Derived : Base { char more[MORE]; };

    static void check(int rounds) {
        std::vector<Derived *> live;
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < 300; i++) {
                auto *object = new Derived;
                std::memset(object, i % 100 + 1, sizeof *object);
                live.push_back(object);
                delete new Base; // what is wrongly among those of this size is given out as one of them
            }
            for (int i = 0; i < 300; i++) {
                auto *object = live[i];
                for (std::size_t k = 0; k < sizeof *object; k++)
                    CHECK_EQ(reinterpret_cast<char *>(object)[k], i % 100 + 1);
                Base *base = object;
                asm volatile("" : "+r"(base));
                delete base;
            }
            live.clear();
        }
    }
};

static void all(int rounds) {
    Pair<16, 12>::check(rounds);
    Pair<1016, 96>::check(rounds);
    Pair<40, 800>::check(rounds);
    Pair<2000, 1000>::check(rounds);
}

int main() {
    all(20);
    std::thread(all, 20).join();
    long before = resident_bytes();
    all(200);
    CHECK(resident_bytes() < before + (4 << 20));
}
