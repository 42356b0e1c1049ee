# redis-server and the memory commands that ask its allocator: MEMORY STATS, PURGE, MALLOC-STATS, DOCTOR, USAGE, active defragmentation.
# SPDX-License-Identifier: BSD-2-Clause
import os

import server

FILL = "for i = 1, 60000 do redis.call('set', 'key' .. i, string.rep('x', i % 400)) end return 'filled'"
HALVE = "for i = 1, 60000, 2 do redis.call('del', 'key' .. i) end return 'halved'"


class Client:
    def __init__(self, socket):
        self.words = ["redis-cli", "-s", socket]

    def __call__(self, *words):
        return server.run(self.words + list(words)).strip()

    def stats(self):
        lines = self("memory", "stats").splitlines()
        names = ["total.allocated"] + ["allocator." + name for name in ("allocated", "active", "resident")]
        return {name: float(lines[lines.index(name) + 1]) for name in names}


def agrees(stats):
    """allocator.allocated is ours, and taken ten times a second; total.allocated is redis's own sum of usable sizes."""
    return abs(stats["allocator.allocated"] - stats["total.allocated"]) < 0.1 * stats["total.allocated"] + server.MEBIBYTE


def check_stats(redis):
    server.wait_until(lambda: agrees(redis.stats()), "the allocator's sum to be the server's")
    stats = redis.stats()
    allocated, active, resident = (stats["allocator." + name] for name in ("allocated", "active", "resident"))
    assert 0 < allocated <= active <= resident, stats
    return stats


def check_purge(redis):
    full = check_stats(redis)
    assert full["allocator.allocated"] > 60000 * 200, full
    assert redis("eval", HALVE, "0") == "halved"
    assert redis("memory", "purge") == "OK"
    half = check_stats(redis)
    assert half["allocator.allocated"] < full["allocator.allocated"] - 30000 * 180, half


def check_words(redis):
    statistics = redis("memory", "malloc-stats")
    assert "Begin jemalloc statistics" in statistics and "Allocated:" in statistics, statistics[:500]
    assert len(statistics.splitlines()) > 50, statistics
    assert "Sam" in redis("memory", "doctor") or "memory" in redis("memory", "doctor")
    assert int(redis("memory", "usage", "key400")) > 0
    assert "mem_allocator:jemalloc" in redis("info", "memory")
    # Debian's redis is built for an allocator without redis's own patch; it must say so, and go on.
    assert "Active defragmentation cannot be enabled" in redis("config", "set", "activedefrag", "yes")
    assert redis("config", "set", "jemalloc-bg-thread", "no") == "OK"
    assert redis("config", "set", "jemalloc-bg-thread", "yes") == "OK"


def load(socket):
    server.run(["redis-benchmark", "-s", socket, "-q", "-n", "20000", "-c", "10", "-P", "16", "-r", "10000",
                "-t", "set,get,lpush,rpop,sadd,hset,zadd,lrange_100,mset"])


def test(allocator, folder):
    server.need("redis-server", "redis-cli", "redis-benchmark")
    socket, log = os.path.join(folder, "socket"), os.path.join(folder, "log")
    words = ["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
    redis = Client(socket)
    with server.started(words, log, env=allocator.environment()) as process:
        server.wait_until(lambda: os.path.exists(socket), "the socket", process)
        allocator.check_maps(process.pid)
        load(socket)
        redis("flushall")
        assert redis("eval", FILL, "0") == "filled"
        check_purge(redis)
        check_words(redis)
        redis("save")  # a fork, too
        redis("bgsave")
        load(socket)
        process.terminate()
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    allocator.check_report(process.pid, server.MEBIBYTE)


server.main(test)
