# A real Parca scrapes `vmag serve` and answers a query with the program's memory and call site.
# `parca.py VMAG LIBRARY HOLDER PARCA`.  tests/tool/build_parca.sh builds it (ten minutes, once); without it the test is skipped.
# SPDX-License-Identifier: BSD-2-Clause
import gzip
import os
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request

from holder import Holder, need_tool, skip
from serve import HELD, MIB, Server, free_port

CONFIG = """
object_storage: {{bucket: {{type: FILESYSTEM, config: {{directory: {folder}/store}}}}}}
scrape_configs:
  - job_name: vmag
    scrape_interval: 1s
    scrape_timeout: 5s
    static_configs: [{{targets: ['{target}']}}]
    params: {{pid: ['{pid}']}}
    profiling_config:
      pprof_config:
        memory: {{enabled: true, path: /debug/pprof/heap}}
        process_cpu: {{enabled: false}}
        goroutine: {{enabled: false}}
        block: {{enabled: false}}
        mutex: {{enabled: false}}
"""
SERIES = 'memory:inuse_space:bytes:space:bytes{job="vmag"}'
PPROF = 1


# Messages of protobuf, as much of it as is asked and answered: numbers and what has a length.
def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def take_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7f) << shift
        shift, at = shift + 7, at + 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data, wanted):
    """The values of a message's fields of that number."""
    at, found = 0, []
    while at < len(data):
        key, at = take_varint(data, at)
        if key & 7 == 0:
            value, at = take_varint(data, at)
        else:
            length, at = (8, at) if key & 7 == 1 else (4, at) if key & 7 == 5 else take_varint(data, at)
            value, at = data[at:at + length], at + length
        if key >> 3 == wanted:
            found.append(value)
    return found


def ask(address, method, message=b""):
    """By gRPC-Web: a frame there, a frame back."""
    request = urllib.request.Request(f"http://{address}/api/parca.query.v1alpha1.QueryService/{method}", data=struct.pack(">BI", 0, len(message)) + message,
                                     headers={"Content-Type": "application/grpc-web+proto"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        body = answer.read()
    return b"" if len(body) < 5 or body[0] != 0 else body[5:5 + struct.unpack(">I", body[1:5])[0]]


def wait_for(what, patience, process, log):
    end = time.monotonic() + patience
    while time.monotonic() < end and process.poll() is None:
        try:
            found = what()
            if found:
                return found
        except OSError:
            pass
        time.sleep(0.3)
    log.seek(0)
    raise AssertionError(log.read()[-3000:])


def check(parca, server, holder, folder):
    config = os.path.join(folder, "parca.yaml")
    with open(config, "w") as file:
        file.write(CONFIG.format(folder=folder, target=server.address, pid=holder.pid))
    address, now = f"127.0.0.1:{free_port()}", int(time.time())
    window = field(1, SERIES) + field(2, field(1, now - 60)) + field(3, field(1, now + 3600))
    with open(os.path.join(folder, "log"), "w+") as log:
        process = subprocess.Popen([parca, f"--config-path={config}", f"--http-address={address}", "--log-level=warn"], cwd=folder, stdout=log,
                                   stderr=log)
        try:
            kinds = wait_for(lambda: fields(ask(address, "ProfileTypes"), 1), 300, process, log)
            assert {fields(kind, 2)[0] for kind in kinds} >= {b"inuse_space", b"inuse_objects"}, kinds
            series = wait_for(lambda: fields(ask(address, "QueryRange", window), 1), 300, process, log)
            samples = fields(series[0], 2)
            held = fields(samples[-1], 2)[0]
            assert abs(held - HELD * MIB) < 0.25 * HELD * MIB, held
            single = field(1, fields(samples[-1], 1)[0]) + field(2, SERIES)
            profile = fields(ask(address, "Query", field(4, single) + field(5, PPROF)), 6)[0]
            profile = gzip.decompress(profile) if profile[:2] == b"\x1f\x8b" else profile
            assert b"site_grow" in profile and b"inuse_space" in profile, profile[:1000]
            log.seek(0)
            told = [line for line in log if "scrape" in line or "profile" in line]
            assert not told, told
            print(f"parca: {held / MIB:.1f} MiB of {HELD} in the last of {len(samples)} profiles, its call site in what it gives back")
        finally:
            process.kill()
            process.wait()


def main(vmag, library, program, parca):
    need_tool(vmag)
    if not os.path.exists(parca):
        skip(f"{parca} is not there: tests/tool/build_parca.sh {os.path.dirname(parca)} builds it, in ten minutes")
    with tempfile.TemporaryDirectory() as folder, Holder(library, program) as holder:
        holder.tell("grow", HELD)
        with Server(vmag, "--pid", holder.pid) as server:
            check(parca, server, holder, folder)


main(*sys.argv[1:])
