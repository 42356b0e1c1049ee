// Every form of operator new and delete: plain, array, nothrow, sized, aligned and all their combinations.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"
#include "../support/pattern.h"
#include "../support/sizes.h"

#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

static void use(void *block, std::size_t size, std::size_t alignment) {
    CHECK_SAY(block != nullptr && reinterpret_cast<uintptr_t>(block) % alignment == 0, "new of %zu bytes, alignment %zu: %p",
              size, alignment, block);
    CHECK_GE(malloc_usable_size(block), size);
    pattern_fill(block, size, size);
    pattern_verify(block, size, size);
}

static void plain_forms(std::size_t size) {
    std::size_t natural = size > 8 ? 16 : 8;
    void *block;
    use(block = ::operator new(size), size, natural);
    ::operator delete(block);
    use(block = ::operator new(size), size, natural);
    ::operator delete(block, size);
    use(block = ::operator new[](size), size, natural);
    ::operator delete[](block);
    use(block = ::operator new[](size), size, natural);
    ::operator delete[](block, size);
    use(block = ::operator new(size, std::nothrow), size, natural);
    ::operator delete(block, std::nothrow);
    use(block = ::operator new[](size, std::nothrow), size, natural);
    ::operator delete[](block, std::nothrow);
}

static void aligned_forms(std::size_t size, std::size_t bytes) {
    std::align_val_t alignment{bytes};
    void *block;
    use(block = ::operator new(size, alignment), size, bytes);
    ::operator delete(block, alignment);
    use(block = ::operator new(size, alignment), size, bytes);
    ::operator delete(block, size, alignment);
    use(block = ::operator new[](size, alignment), size, bytes);
    ::operator delete[](block, alignment);
    use(block = ::operator new[](size, alignment), size, bytes);
    ::operator delete[](block, size, alignment);
    use(block = ::operator new(size, alignment, std::nothrow), size, bytes);
    ::operator delete(block, alignment, std::nothrow);
    use(block = ::operator new[](size, alignment, std::nothrow), size, bytes);
    ::operator delete[](block, alignment, std::nothrow);
}

static void null_is_ignored() {
    void *volatile null = nullptr;
    ::operator delete(null);
    ::operator delete[](null);
    ::operator delete(null, std::size_t{8});
    ::operator delete[](null, std::size_t{8});
    ::operator delete(null, std::align_val_t{64});
    ::operator delete(null, std::size_t{8}, std::align_val_t{64});
    ::operator delete(null, std::nothrow);
}

struct alignas(256) Wide {
    char bytes[256];
};

// The forms as the compiler picks them for ordinary code.
static void language_forms() {
    auto one = std::make_unique<Wide>();
    CHECK_EQ(reinterpret_cast<uintptr_t>(one.get()) % 256, 0);
    auto many = std::make_unique<Wide[]>(10);
    CHECK_EQ(reinterpret_cast<uintptr_t>(many.get()) % 256, 0);
    std::map<std::string, std::vector<int>> table;
    for (int i = 0; i < 20000; i++)
        table[std::to_string(i * 7919 % 5000) + std::string(i % 60, 'x')].push_back(i);
    std::size_t entries = 0;
    for (const auto &[name, values] : table)
        entries += values.size();
    CHECK_EQ(entries, 20000);
}

int main() {
    for (std::size_t size = 0; size <= 3000; size++)
        plain_forms(size);
    each_class_size(std::size_t{8} << 20, plain_forms);
    for (std::size_t alignment = 1; alignment <= 1 << 20; alignment *= 2)
        for (std::size_t size : {0, 1, 24, 64, 100, 1000, 5000, 70000})
            aligned_forms(size, alignment);
    null_is_ignored();
    language_forms();
    return 0;
}
