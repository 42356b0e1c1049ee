# postgres: initdb, bulk inserts, parallel plans, JSON, sorts that spill, vacuum, a clean end; as another user when we are root.
# SPDX-License-Identifier: BSD-2-Clause
import glob
import os
import pwd

import server

QUERIES = """
create table numbers as select i as id, (i::bigint * 7919) % 100003 as value, repeat(chr(97 + i % 26), i % 150) as name from generate_series(1, 60000) i;
create index on numbers (name); create index on numbers (value); analyze numbers;
set max_parallel_workers_per_gather = 2; set parallel_setup_cost = 0; set parallel_tuple_cost = 0; set min_parallel_table_scan_size = 0;
select count(*), sum(value), sum(length(name)) from numbers;
select a.name, count(*) from numbers a join numbers b on a.value = b.id where a.id % 97 = 0 group by a.name order by 2 desc, 1 limit 3;
set work_mem = '64kB';
select sum(r * value) from (select value, row_number() over (partition by value % 100 order by value, id) r from numbers) x;
select length(jsonb_agg(to_jsonb(n))::text) from numbers n where id % 7 = 0;
update numbers set name = name || 'x' where id % 3 = 0; delete from numbers where id % 5 = 0; vacuum full numbers;
select count(*), md5(string_agg(name, ',' order by id)) from numbers;
"""
EXPECTED = "48000|"


def folder_of_programs():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not found:
        server.skip("postgresql is not installed (scripts/setup.sh test)")
    return found[-1]


def as_somebody():
    """postgres refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        server.skip("there is no user postgres to run it as")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def test(allocator, folder):
    programs, somebody = folder_of_programs(), as_somebody()
    data, log = os.path.join(folder, "data"), os.path.join(folder, "log")
    os.mkdir(data, 0o700)
    with open(allocator.report, "wb"):
        pass
    if somebody:
        for path in (data, folder, allocator.report):
            os.chown(path, somebody["user"], somebody["group"])
    options = {"env": allocator.environment(), "cwd": folder, **somebody}
    server.run([f"{programs}/initdb", "-D", data, "-A", "trust", "-E", "UTF8", "--no-sync", "-U", "postgres"], **options)
    words = [f"{programs}/postgres", "-D", data, "-c", "listen_addresses=", "-k", folder, "-c", "fsync=off"]
    with server.started(words, log, **options) as process:
        server.wait_until(lambda: os.path.exists(f"{folder}/.s.PGSQL.5432"), "the socket", process)
        allocator.check_maps(process.pid)
        psql = [f"{programs}/psql", "-h", folder, "-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1"]
        server.wait_until(lambda: server.subprocess.call(psql + ["-c", "select 1"], stdout=-3, stderr=-3) == 0, "postgres", process)
        told = server.run(psql, input=QUERIES, env={"PATH": os.environ["PATH"]})
        assert told.splitlines()[-1].startswith(EXPECTED), told
        process.terminate()
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    allocator.check_report(process.pid, 1000)


server.main(test)
