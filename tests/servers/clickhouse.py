# clickhouse-server, which Debian links with libjemalloc.so.2: a table written, merged and asked by several clients at once. It asks mallctl itself.
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import os

import server

ROWS, CLIENTS = 200000, 4
CONFIG = """<yandex>
<logger><level>warning</level><console>1</console></logger>
<listen_host>127.0.0.1</listen_host><tcp_port>{port}</tcp_port>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path><users_config>{folder}/users.xml</users_config>
<mark_cache_size>5368709120</mark_cache_size><default_profile>default</default_profile><default_database>default</default_database>
</yandex>
"""
USERS = """<yandex>
<profiles><default><max_memory_usage>1000000000</max_memory_usage></default></profiles><quotas><default/></quotas>
<users><default><password></password><networks><ip>127.0.0.1</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
"""


def ask(port, *words):
    return [server.run(["clickhouse-client", "--host", "127.0.0.1", "--port", str(port), "--query", query]).strip() for query in words]


def write(port, part):
    ask(port, f"insert into t select number * {CLIENTS} + {part}, toString(number * 7) from numbers({ROWS // CLIENTS})")


def test(allocator, folder):
    server.need("clickhouse-server", "clickhouse-client")
    [port], log = server.free_ports(1), os.path.join(folder, "log")
    for name, text in (("config.xml", CONFIG), ("users.xml", USERS)):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text.format(port=port, folder=folder))
    words = [server.find("clickhouse-server"), f"--config-file={folder}/config.xml"]
    with server.started(words, log, env=allocator.environment(), cwd=folder) as process:
        server.wait_until(lambda: server.answers(port), "clickhouse-server", process)
        allocator.check_maps(process.pid)
        ask(port, "create table t (a UInt64, s String) engine = MergeTree order by a")
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda part: write(port, part), range(CLIENTS)))
        count, most, sums = ask(port, "select count(), sum(a) from t", "select s, count() from t group by s order by count() desc, s limit 1",
                                "optimize table t final")
        assert count == f"{ROWS}\t{ROWS * (ROWS - 1) // 2}", count
        assert most == f"0\t{CLIENTS}" and sums == "", (most, sums)
        process.kill()  # 18.16 frees a logger twice at its end, which we would tell
        process.wait(server.SECONDS)
    server.check_quiet(log)


server.main(test)
