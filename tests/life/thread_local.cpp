// C++ thread_local objects whose destructors free and allocate, also in a thread that never allocated otherwise.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

static std::atomic<int> destroyed;

struct Holder {
    std::vector<std::string> texts;
    std::unique_ptr<char[]> large;
    ~Holder() {
        for (const auto &text : texts)
            CHECK_EQ(text.size(), 40);
        std::vector<std::string> more(100, std::string(200, 'm'));
        CHECK_EQ(more.back().back(), 'm');
        texts.clear();
        destroyed++;
    }
};

static thread_local Holder holder;

static void body() {
    for (int i = 0; i < 50; i++)
        holder.texts.emplace_back(40, 'a' + i % 26);
    holder.large = std::make_unique<char[]>(300000);
}

int main() {
    for (int round = 0; round < 500; round++) {
        std::thread first(body), second(body);
        first.join();
        second.join();
    }
    CHECK_EQ(destroyed.load(), 1000);
    return 0;
}
