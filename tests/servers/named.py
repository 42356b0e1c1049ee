# BIND9's named: starts, answers over UDP and TCP, transfers a zone, reloads, tells its statistics, and stops.
# It allocates by mallocx, sdallocx and their kin, an explicit arena for each memory context.
# SPDX-License-Identifier: BSD-2-Clause
import json
import os
import re
import urllib.request

import server

CONFIGURATION = """
options {{ directory "{folder}"; listen-on port {dns} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }}; recursion no;
  pid-file "{folder}/named.pid"; session-keyfile "{folder}/session.key"; statistics-file "{folder}/statistics";
  dnssec-validation no; allow-transfer {{ 127.0.0.1; }}; }};
key "k" {{ algorithm hmac-sha256; secret "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"; }};
controls {{ inet 127.0.0.1 port {control} allow {{ 127.0.0.1; }} keys {{ "k"; }}; }};
statistics-channels {{ inet 127.0.0.1 port {http} allow {{ 127.0.0.1; }}; }};
zone "test." {{ type primary; file "zone"; }};
"""
CONTROL = """
key "k" {{ algorithm hmac-sha256; secret "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"; }};
options {{ default-key "k"; default-server 127.0.0.1; default-port {control}; }};
"""
ZONE = "$TTL 60\n@ IN SOA ns.test. admin.test. {serial} 60 60 60 60\n@ IN NS ns.test.\nns IN A 127.0.0.1\n"
NAMES = 1000


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="ascii") as file:
        file.write(text)


def write_zone(folder, serial):
    names = "".join(f"w{i} IN A 192.0.2.{i % 200 + serial}\n" for i in range(NAMES))
    write(folder, "zone", ZONE.format(serial=serial) + names)


def dig(ports, *words):
    lines = server.run(["dig", "-p", str(ports["dns"]), "@127.0.0.1", "+short", "+time=5", "+tries=20", *words]).splitlines()
    return [line for line in lines if not line.startswith(";")]  # a packet may be lost, and is told


def many(ports, folder, serial):
    """A file of questions to one dig: each answered as the zone says."""
    write(folder, "questions", "".join(f"w{i}.test\n" for i in range(NAMES)))
    expected = [f"192.0.2.{i % 200 + serial}" for i in range(NAMES)]
    for way in ("+notcp", "+tcp"):
        answers = dig(ports, way, "-f", os.path.join(folder, "questions"))
        assert answers == expected, (way, len(answers), next(pair for pair in zip(answers, expected) if pair[0] != pair[1]))


def check_statistics(ports, folder, rndc):
    server.run(rndc + ["stats"])
    with open(os.path.join(folder, "statistics"), encoding="ascii") as file:
        text = file.read()
    assert int(re.search(r"(\d+) responses sent", text).group(1)) > 2 * NAMES, text[:2000]
    with urllib.request.urlopen(f"http://127.0.0.1:{ports['http']}/json/v1/mem") as reply:
        memory = json.load(reply)["memory"]
    assert memory["InUse"] > 100000 and len(memory["contexts"]) > 3, memory


def test(allocator, folder):
    server.need("named", "rndc", "dig")
    ports = dict(zip(("dns", "control", "http"), server.free_ports(3)))
    write(folder, "named.conf", CONFIGURATION.format(folder=folder, **ports))
    write(folder, "rndc.conf", CONTROL.format(**ports))
    write_zone(folder, 1)
    rndc = [server.find("rndc"), "-c", os.path.join(folder, "rndc.conf")]
    log = os.path.join(folder, "log")
    words = [server.find("named"), "-g", "-n", "2", "-c", os.path.join(folder, "named.conf")]
    with server.started(words, log, env=allocator.environment()) as process:
        server.wait_until(lambda: server.answers(ports["dns"]) and server.answers(ports["control"]), "named", process)
        allocator.check_maps(process.pid)
        many(ports, folder, 1)
        assert len(dig(ports, "test", "AXFR")) > NAMES
        write_zone(folder, 2)
        assert "successful" in server.run(rndc + ["reload"])
        server.wait_until(lambda: dig(ports, "w0.test") == ["192.0.2.2"], "the new zone", process)
        many(ports, folder, 2)
        server.run(rndc + ["flush"])
        check_statistics(ports, folder, rndc)
        server.run(rndc + ["stop"])
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    allocator.check_report(process.pid, 1000)


server.main(test)
