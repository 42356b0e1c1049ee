// C++ containers that come and go: maps, vectors of strings, shared pointers; the compiler passes sizes to operator delete, or does not
// (-fno-sized-deallocation), which is how the program is built twice.
//
//   sized_delete ROUNDS
//
// SPDX-License-Identifier: BSD-2-Clause
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

struct Leaf {
    long value;
    std::string text;
};

struct Branch {
    std::unique_ptr<Branch> left, right;
    std::shared_ptr<Leaf> leaf;
};

std::unique_ptr<Branch> grow(unsigned depth, long value) {
    auto branch = std::make_unique<Branch>();
    if (depth == 0) branch->leaf = std::make_shared<Leaf>(Leaf{value, std::string(20 + static_cast<unsigned long>(value) % 60, 'x')});
    else branch->left = grow(depth - 1, value * 2), branch->right = grow(depth - 1, value * 2 + 1);
    return branch;
}

long sum(const Branch &branch) {
    if (branch.leaf) return branch.leaf->value + static_cast<long>(branch.leaf->text.size());
    return sum(*branch.left) + sum(*branch.right);
}

long round_of_work(unsigned number) {
    std::map<unsigned, std::string> ordered;
    std::unordered_map<std::string, std::vector<unsigned>> index;
    for (unsigned i = 0; i < 3000; i++) {
        const unsigned key = i * 2654435761u % 5003;
        ordered[key] = std::to_string(key * static_cast<unsigned long>(number));
        index[ordered[key].substr(0, 3)].push_back(key);
    }
    for (unsigned i = 0; i < 5003; i += 2) ordered.erase(i);
    return sum(*grow(11, number)) + static_cast<long>(ordered.size() + index.size());
}

} // namespace

int main(int count, char **words) {
    long total = 0;
    for (unsigned i = 0; i < (count > 1 ? static_cast<unsigned>(std::atoi(words[1])) : 100); i++) total += round_of_work(i);
    std::printf("%ld\n", total);
}
