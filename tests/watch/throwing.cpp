// Exceptions for everything.c: thrown through a few frames that hold memory, and caught.
// SPDX-License-Identifier: BSD-2-Clause
#include <stdexcept>
#include <string>
#include <vector>

static void fall(int depth) {
    std::vector<char> held(static_cast<size_t>(depth) * 700 + 1);
    if (depth == 0)
        throw std::runtime_error(std::string(300, 'x'));
    fall(depth - 1);
}

extern "C" int throw_and_catch(int depth) {
    try {
        fall(depth);
    } catch (const std::exception &thrown) {
        return thrown.what()[0] == 'x';
    }
    return 0;
}
