// Tests os/cgroup.h on files of the test's own: the least quota of a group and of those above it, fractions rounded up; what is used and the least limit of
// memory; version 1, both together, neither.
// SPDX-License-Identifier: BSD-2-Clause
#include "os/cgroup.h"

#include <limits.h>
#include <string.h>

#include "os/file.h"
#include "unit.h"

#define ROOT "/sys/fs/cgroup"
enum { FILES_MOST = 8, MANY = 1 << 20 };

// Up to the first without a path. What is not among them does not exist.
static struct file {
    const char *path, *text;
} files[FILES_MOST];

ssize_t __real_os_file_read(const char *path, char *text, size_t size);
ssize_t __wrap_os_file_read(const char *path, char *text, size_t size);

ssize_t __wrap_os_file_read(const char *path, char *text, size_t size) {
    if (strcmp(path, "/proc/self/cgroup") != 0 && strncmp(path, ROOT, strlen(ROOT)) != 0)
        return __real_os_file_read(path, text, size);
    for (size_t i = 0; i < FILES_MOST && files[i].path != NULL; i++)
        if (strcmp(files[i].path, path) == 0) {
            size_t length = strlen(files[i].text) < size - 1 ? strlen(files[i].text) : size - 1;

            memcpy(text, files[i].text, length);
            text[length] = '\0';
            return (ssize_t)length;
        }
    return -1;
}

// With the group's line, and so many more files.
static void say_files(const char *group, const struct file *more, size_t count) {
    CHECK(count < FILES_MOST);
    memset(files, 0, sizeof files);
    files[0] = (struct file){ "/proc/self/cgroup", group };
    for (size_t i = 0; i < count; i++)
        files[1 + i] = more[i];
}

#define FILES(group, ...) say_files(group, (const struct file[]){ __VA_ARGS__ }, sizeof(struct file[]){ __VA_ARGS__ } / sizeof(struct file))

static void memory(size_t current, size_t limit) {
    size_t got_current = 1, got_limit = 1;

    os_cgroup_memory(&got_current, &got_limit);
    CHECK_EQ(got_current, current);
    CHECK_EQ(got_limit, limit);
}

static void nothing_is_known(void) {
    memset(files, 0, sizeof files);
    CHECK_EQ(os_cgroup_processors(), UINT_MAX);
    memory(0, 0);
    FILES("", { ROOT "/none", "" });
    CHECK_EQ(os_cgroup_processors(), UINT_MAX);
    FILES("0::/\n", { ROOT "/cpu.max", "max 100000\n" }, { ROOT "/memory.current", "7\n" }, { ROOT "/memory.max", "max\n" });
    CHECK_EQ(os_cgroup_processors(), UINT_MAX);
    memory(7, 0);
}

// Nobody has less than one, whatever the file says.
static void fractions(void) {
    static const struct {
        const char *text;
        unsigned processors;
    } cases[] = {
        { "100000 100000\n", 1 }, { "100001 100000\n", 2 }, { "150000 100000\n", 2 }, { "200000 100000\n", 2 },
        { "1000 100000\n", 1 }, { "0 100000\n", 1 }, { "100000 0\n", 1 }, { "max 100000\n", UINT_MAX },
        { "4000000\n", UINT_MAX }, { "9000000000000 1\n", MANY }, { "", UINT_MAX },
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FILES("0::/\n", { ROOT "/cpu.max", cases[i].text });
        CHECK_SAY(os_cgroup_processors() == cases[i].processors, "%s", cases[i].text);
    }
}

// The least of the group, those above, and the root's.
static void groups_above(void) {
    static const char *const paths[] = { ROOT "/cpu.max", ROOT "/a/cpu.max", ROOT "/a/b/cpu.max", ROOT "/a/b/long name/cpu.max" };

    for (size_t least = 0; least < 4; least++) {
        struct file own[4];

        for (size_t i = 0; i < 4; i++)
            own[i] = (struct file){ paths[i], i == least ? "300000 100000\n" : i % 2 == 0 ? "500000 100000\n" : "max 100000\n" };
        say_files("0::/a/b/long name\n", own, 4);
        CHECK_EQ(os_cgroup_processors(), 3);
    }
    FILES("0::/a/b", { ROOT "/a/cpu.max", "400000 100000\n" }, { ROOT "/b/cpu.max", "100000 100000\n" }, { ROOT "/a/b/c/cpu.max", "100000 100000\n" });
    CHECK_EQ(os_cgroup_processors(), 4);
}

static void memory_above(void) {
    FILES("0::/a/b\n", { ROOT "/a/b/memory.current", "5000\n" }, { ROOT "/a/memory.current", "70000\n" },
          { ROOT "/a/b/memory.max", "max\n" }, { ROOT "/a/memory.max", "90000\n" }, { ROOT "/memory.max", "100000\n" });
    memory(5000, 90000);
    files[4].text = "100001\n";
    memory(5000, 100000);
    files[3].text = "80000\n";
    memory(5000, 80000);
    files[5].text = "60000\n";
    memory(5000, 60000);

    // As of services that delegate, whose processes lie below the last group with the controller.
    FILES("0::/a/b/c\n", { ROOT "/a/memory.current", "70000\n" }, { ROOT "/a/memory.max", "90000\n" }, { ROOT "/memory.current", "80000\n" });
    memory(70000, 90000);
}

// Also where the line of version 2 is there for systemd alone.
static void version_1(void) {
    static const char *const groups[] = { "4:memory:/a\n2:cpu,cpuacct:/a\n1:name=systemd:/a\n", "4:memory:/a\n2:cpu,cpuacct:/a\n0::/a\n" };

    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        FILES(groups[i], { ROOT "/cpu/cpu.cfs_quota_us", "125000\n" }, { ROOT "/cpu/cpu.cfs_period_us", "50000\n" },
              { ROOT "/memory/memory.usage_in_bytes", "123456\n" }, { ROOT "/memory/memory.limit_in_bytes", "7000000\n" });
        CHECK_EQ(os_cgroup_processors(), 3);
        memory(123456, 7000000);
        files[1].text = "-1\n";
        files[4].text = "9223372036854771712\n"; // none
        CHECK_EQ(os_cgroup_processors(), UINT_MAX);
        memory(123456, 0);
    }
    FILES("4:cpu:/b\n0::/a\n", { ROOT "/a/cpu.max", "200000 100000\n" }, { ROOT "/b/cpu.max", "100000 100000\n" },
          { ROOT "/cpu/cpu.cfs_quota_us", "500000\n" }, { ROOT "/cpu/cpu.cfs_period_us", "100000\n" },
          { ROOT "/a/memory.current", "11\n" }, { ROOT "/memory/memory.usage_in_bytes", "22\n" });
    CHECK_EQ(os_cgroup_processors(), 2);
    memory(11, 0);
}

// Of a path that is longer than there is room for what is above is known.
static void long_path(void) {
    char group[4096] = "0::/a/";

    memset(group + strlen(group), 'x', sizeof group - 1 - strlen(group));
    FILES(group, { ROOT "/a/cpu.max", "600000 100000\n" }, { ROOT "/a/memory.max", "1000\n" }, { ROOT "/memory/memory.usage_in_bytes", "1\n" });
    CHECK_EQ(os_cgroup_processors(), 6);
}

int main(void) {
    nothing_is_known();
    fractions();
    groups_above();
    memory_above();
    version_1();
    long_path();
    return 0;
}
