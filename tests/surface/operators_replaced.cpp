// A program with a new and a delete of its own, and nothing else: sized and nothrow forms lead to these (C++17 [new.delete.single]).
// Its objects have headers, as those of programs that count them have, so whoever else frees or allocates them is found out.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"
#include "../support/family.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

struct Header {
    std::size_t size;
    std::size_t magic;
};

static const std::size_t magic = 0x600dbeef;
static long live, made;

void *operator new(std::size_t size) {
    Header *header = size > PTRDIFF_MAX - sizeof(Header) ? nullptr : static_cast<Header *>(std::malloc(sizeof(Header) + size));
    if (header == nullptr)
        throw std::bad_alloc();
    header->size = size;
    header->magic = magic;
    live++;
    made++;
    return header + 1;
}

void operator delete(void *object) noexcept {
    if (object == nullptr)
        return;
    Header *header = static_cast<Header *>(object) - 1;
    CHECK_EQ(header->magic, magic);
    header->magic = 0;
    live--;
    std::free(header);
}

struct Record {
    long words[6];
    bool operator<(const Record &other) const { return words[0] < other.words[0]; }
};

static void check_sized(std::size_t size) {
    void *objects[100];
    long before = live;
    for (void *&object : objects)
        object = ::operator new(size);
    CHECK_EQ(live, before + 100);
    for (void *object : objects)
        ::operator delete(object, size);
    CHECK_EQ(live, before);
    ::operator delete(nullptr, size);
}

static void check_nothrow(std::size_t size) {
    long before = live;
    void *object = ::operator new(size, std::nothrow);
    CHECK(object != nullptr);
    CHECK_EQ(live, before + 1);
    ::operator delete(object);
    object = ::operator new(size, std::nothrow);
    ::operator delete(object, std::nothrow);
    CHECK_EQ(live, before);
}

static volatile std::size_t impossible = SIZE_MAX / 2;

// What is ours alone goes together; so does what the library makes for itself.
static void check_the_rest() {
    long before = live;
    for (int i = 1; i < 200; i++) {
        Record *records = new Record[i];
        records[i - 1].words[0] = i;
        delete[] records;
        char *bytes = new (std::nothrow) char[i];
        CHECK(bytes != nullptr);
        delete[] bytes;
    }
    std::vector<Record> records(1000);
    for (std::size_t i = 0; i < records.size(); i++)
        records[i].words[0] = static_cast<long>(i * 7919 % 1000);
    std::stable_sort(records.begin(), records.end()); // a buffer by nothrow new
    CHECK(std::is_sorted(records.begin(), records.end()));
    CHECK(::operator new(impossible, std::nothrow) == nullptr);
    records = std::vector<Record>();
    CHECK_EQ(live, before);
}

// Before main.
static struct Early {
    Early() {
        check_sized(40);
        check_nothrow(40);
    }
} early;

int main() {
    for (std::size_t size = 0; size < 3000; size += size / 8 + 1) {
        check_sized(size);
        check_nothrow(size);
    }
    check_sized(100000);
    check_nothrow(100000);
    Record *record = new Record;
    delete record;
    check_the_rest();
    CHECK_GT(made, 1000);
    return 0;
}
