# mariadbd: a new data directory, bulk inserts, parallel queries, a clean end, and the same data after the next start.
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import getpass
import os

import server

CREATE = """create database t; use t;
create table numbers (id int primary key auto_increment, value int, name varchar(200), key (name), key (value)) engine=InnoDB;
insert into numbers (value, name) select seq * 7919 % 100003, repeat(char(97 + seq % 26), seq % 150) from seq_1_to_60000;"""
DIGEST = """select count(*), sum(value), sum(length(name)), sum(crc32(name)) from t.numbers;
select value, name, row_number() over (partition by value % 10 order by value, id) r from t.numbers order by r desc, value, id limit 5;"""


def sql(socket, text):
    return server.run(["mariadb", "--no-defaults", "-N", "-S", socket, "-e", text])


def work(socket, number):
    return sql(socket, f"""use t; select a.name, count(*) from numbers a join numbers b on a.value = b.id
        where a.id % 97 = {number} group by a.name order by 2 desc, 1 limit 3;
        select json_arrayagg(value) from (select value from numbers where id % 211 = {number}) v;
        select substring_index(group_concat(name order by id separator ','), ',', 3) from numbers where id % 503 = {number};""")


def run_server(allocator, folder, data, visit):
    socket, log = os.path.join(folder, "socket"), os.path.join(folder, "log")
    words = [server.find("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}", f"--socket={socket}",
             "--skip-networking", f"--pid-file={folder}/pid", "--innodb-buffer-pool-size=64M", "--skip-grant-tables"]
    with server.started(words, log, env=allocator.environment()) as process:
        server.wait_until(lambda: os.path.exists(socket), "the socket", process)
        allocator.check_maps(process.pid)
        result = visit(socket)
        process.terminate()
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    allocator.check_report(process.pid, 1000)
    return result


def first_visit(socket):
    sql(socket, CREATE)
    with concurrent.futures.ThreadPoolExecutor(6) as clients:
        assert len(set(clients.map(lambda number: work(socket, number % 3), range(24)))) == 3
    sql(socket, "use t; update numbers set name = concat(name, 'x') where id % 3 = 0; delete from numbers where id % 5 = 0; optimize table numbers;")
    return sql(socket, DIGEST)


def test(allocator, folder):
    server.need("mariadbd", "mariadb", "mariadb-install-db")
    data = os.path.join(folder, "data")
    server.run([server.find("mariadb-install-db"), "--no-defaults", f"--user={getpass.getuser()}", f"--datadir={data}",
                "--skip-test-db", "--auth-root-authentication-method=normal"], env=allocator.environment())
    told = run_server(allocator, folder, data, first_visit)
    again = run_server(allocator, folder, data, lambda socket: sql(socket, DIGEST))
    assert told == again and told.startswith("48000\t"), (told, again)


server.main(test)
