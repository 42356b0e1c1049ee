# `vmag serve` asked by hand, by promtool, by a real Prometheus and by pprof.
# `serve.py VMAG LIBRARY HOLDER`.  What is not installed is named and left out.
# SPDX-License-Identifier: BSD-2-Clause
import gzip
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from holder import Holder, need_tool

MIB = 1 << 20
HELD = 64


class Server:
    def __init__(self, vmag, *words):
        self.process = subprocess.Popen([vmag, "serve", "--listen", "127.0.0.1:0", *words], stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        found = re.search(r"serving on (http://(127\.0\.0\.1:\d+)/)", line)
        assert found, line
        self.url, self.address = found.group(1)[:-1], found.group(2)

    def get(self, path, accept=""):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers={"Accept": accept}), timeout=300) as answer:
            return answer.headers["Content-Type"], answer.read()

    def refusal(self, path, method="GET"):
        try:
            urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=300)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        raise AssertionError(f"{path} was answered")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


def value(text, name, **labels):
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{key}="{word}"' in line for key, word in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError((name, labels, text[:2000]))


def check_document(text):
    """docs/fleet.md names each metric, or the beginning of its kind."""
    document = (pathlib.Path(__file__).resolve().parent.parent.parent / "docs/fleet.md").read_text()
    for name in {re.split("[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}:
        kind = re.match("vmag_(cache|arena|class)_", name)
        assert f"`{name}" in document or kind and f"`{kind[0]}…" in document, name


def check_metrics(server, holder):
    kind, body = server.get("/metrics")
    text = body.decode()
    assert kind.startswith("text/plain; version=0.0.4"), kind
    check_document(text)
    allocated = value(text, "vmag_allocated_bytes", pid=holder.pid)
    assert HELD * MIB <= allocated < (HELD + 8) * MIB, allocated
    assert value(text, "vmag_active_bytes", pid=holder.pid) >= allocated
    assert value(text, "vmag_resident_bytes", pid=holder.pid) >= HELD * MIB
    assert value(text, "vmag_profile_active", pid=holder.pid) == 1
    assert value(text, "vmag_class_live_objects", pid=holder.pid, size="4096") * 4096 > 0.9 * HELD * MIB
    assert value(text, "vmag_arena_allocated_bytes", pid=holder.pid, arena="0") > 0
    assert value(text, "vmag_cache_out_bytes", pid=holder.pid, cache="holder") >= 2 * MIB
    for name in ("dirty", "magazines", "metadata", "mapped", "cgroup_used"):
        if name != "cgroup_used" or "vmag_cgroup_used_bytes" in text:
            assert value(text, f"vmag_{name}_bytes", pid=holder.pid) >= 0
    kind, body = server.get("/metrics", "application/openmetrics-text;version=1.0.0")
    assert kind.startswith("application/openmetrics-text") and body.endswith(b"# EOF\n"), kind
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done
    else:
        print("without promtool: the metrics are not checked by it")


def totals(proto, which):
    pprof = shutil.which("pprof") or os.path.expanduser("~/go/bin/pprof")
    if not os.path.exists(pprof):
        print("without pprof (go install github.com/google/pprof): profiles are not read by it")
        return None
    out = subprocess.run([pprof, "-top", "-unit=B", "-nodefraction=0", f"-sample_index={which}", proto],
                         capture_output=True, text=True, check=True).stdout
    return float(re.search(r"of ([\d.]+)B total", out).group(1)), out


PPROF_MODULE = "github.com/google/pprof@v0.0.0-20260906184651-6331bc6350fe"


def build_validator(folder):
    """What holds a profile to the rules of pprof, Parca and Pyroscope; None where there is no Go, or its module is not to be had."""
    if not shutil.which("go"):
        print("without go: profiles are not held to the rules of Parca and Pyroscope")
        return None
    shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "validate.go"), folder)
    for words in (["mod", "init", "validate"], ["get", PPROF_MODULE], ["build", "-o", "validate", "."]):
        try:
            subprocess.run(["go", *words], cwd=folder, env={**os.environ, "GOFLAGS": "-mod=mod"}, capture_output=True, text=True, check=True,
                           timeout=200)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            print(f"without {PPROF_MODULE}, profiles are not held to the rules of Parca and Pyroscope: {str(error.stderr).strip()[-200:]}")
            return None
    return os.path.join(folder, "validate")


def check_rules(server, holder, folder):
    go = os.path.join(folder, "go")
    os.mkdir(go)
    validate = build_validator(go)
    for path in ("heap?", "heap?seconds=1&", "allocs?", "allocs?seconds=1&"):
        proto = os.path.join(folder, "rules.pb.gz")
        with open(proto, "wb") as file:
            file.write(server.get(f"/debug/pprof/{path}pid={holder.pid}")[1])
        if validate:
            done = subprocess.run([validate, proto], capture_output=True, text=True)
            assert done.returncode == 0 and "inuse_space" in done.stdout, (path, done)


def check_profiles(server, holder, folder):
    proto = os.path.join(folder, "heap.pb.gz")
    body = server.get(f"/debug/pprof/heap?pid={holder.pid}")[1]
    assert b"inuse_space" in gzip.decompress(body) and b"site_grow" in gzip.decompress(body)
    with open(proto, "wb") as file:
        file.write(body)
    found = totals(proto, "inuse_space")
    if found:
        assert abs(found[0] - HELD * MIB) < 0.25 * HELD * MIB and "site_grow" in found[1], found
    for seconds in (2, 8, 32):  # on a busy machine the first look may come too late, or the last one too early
        window = threading.Thread(target=lambda: (time.sleep(seconds / 4), holder.tell("churn", 96)))
        window.start()
        body = server.get(f"/debug/pprof/allocs?seconds={seconds}&pid={holder.pid}")[1]
        window.join()
        with open(proto, "wb") as file:
            file.write(body)
        found = totals(proto, "alloc_space")
        if not found or found[0] > 0.75 * 96 * MIB:
            break
    if found:
        assert abs(found[0] - 96 * MIB) < 0.25 * 96 * MIB and "site_churn" in found[1] and "site_grow" not in found[1], found
    assert gzip.decompress(server.get("/debug/pprof/allocs")[1])


def check_leavers(server, holder):
    """Whoever gives a profile over time up makes room for others, also with something behind the question."""
    host, port = server.address.split(":")
    askers = [socket.create_connection((host, int(port))) for _ in range(40)]
    for asker in askers:
        asker.sendall(f"GET /debug/pprof/allocs?seconds=100&pid={holder.pid} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    time.sleep(1)
    for asker in askers:
        try:
            asker.sendall(b"\r\n")
        except OSError:  # turned away
            pass
        asker.close()
    for _ in range(40):  # until it is noticed
        try:
            assert server.get(f"/debug/pprof/allocs?seconds=1&pid={holder.pid}")[1]
            return
        except urllib.error.HTTPError as error:
            assert error.code == 503, error
            time.sleep(0.5)
    raise AssertionError("who left keeps a place")


def check_refusals(server, holder):
    assert server.refusal("/nowhere")[0] == 404
    assert server.refusal("/debug/pprof/heap?pid=1")[0] == 404
    assert server.refusal("/debug/pprof/allocs?seconds=abc")[0] == 400
    assert server.refusal("/debug/pprof/allocs?seconds=999999")[0] == 400
    assert server.refusal("/metrics", "POST")[0] == 405
    assert b"holder" in server.get("/")[1] and holder.pid.encode() in server.get("/")[1]


def ask_prometheus(address, query, patience):
    end = time.monotonic() + patience
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://{address}/api/v1/query?query={query}", timeout=60) as answer:
                result = json.load(answer)["data"]["result"]
                if result:
                    return result
        except OSError:
            pass
        time.sleep(0.2)
    return []


def free_port():
    import socket
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def check_prometheus(server, holder, folder):
    if not shutil.which("prometheus"):
        print("without prometheus (Debian's package of that name): nobody scrapes")
        return
    config = os.path.join(folder, "prometheus.yml")
    with open(config, "w") as file:
        file.write("global: {scrape_interval: 1s, scrape_timeout: 1s}\n"
                   f"scrape_configs: [{{job_name: vmag, static_configs: [{{targets: ['{server.address}']}}]}}]\n")
    if shutil.which("promtool"):
        subprocess.run(["promtool", "check", "config", config], check=True, stdout=subprocess.DEVNULL)
    address = f"127.0.0.1:{free_port()}"
    log = open(os.path.join(folder, "prometheus.log"), "w+")
    prometheus = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder}/data",
                                   f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        result = ask_prometheus(address, f'vmag_allocated_bytes{{pid="{holder.pid}"}}', 300)
        log.seek(0)
        assert result, log.read()[-3000:]
        assert float(result[0]["value"][1]) >= HELD * MIB and result[0]["metric"]["job"] == "vmag", result
        assert ask_prometheus(address, "up{job=\"vmag\"}==1", 300)
        print(f"prometheus: {result[0]}")
    finally:
        prometheus.kill()
        prometheus.wait()
        log.close()


def check_all_and_gone(vmag, library, program):
    with Holder(library, program) as one, Holder(library, program, "prof:false") as two, Holder(library, program, "publish:false") as hidden:
        for holder in (one, two, hidden):
            holder.tell("hold", 1)
        with Server(vmag, "--all") as server:
            text = server.get("/metrics")[1].decode()
            assert value(text, "vmag_allocated_bytes", pid=one.pid) and value(text, "vmag_allocated_bytes", pid=two.pid)
            assert "vmag_unreadable_processes 0\n" not in text, text
            assert server.refusal("/debug/pprof/heap")[0] == 400
            code, why = server.refusal(f"/debug/pprof/heap?pid={two.pid}")
            assert code == 503 and "profiler is off" in why, why
        with Server(vmag, "--pid", one.pid, "--pid", two.pid) as server:
            two.process.kill()
            two.process.wait()
            text = server.get("/metrics")[1].decode()
            assert "vmag_unreadable_processes 1\n" in text and "vmag_processes 1\n" in text, text


def check_finer(vmag, holder):
    """Who samples already stays as it is."""
    words = [vmag, "serve", "--listen", "127.0.0.1:0", "--pid", holder.pid, "--profile", "512k"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        lines = [server.stderr.readline() for _ in range(2)]
        server.kill()
        assert f"process {holder.pid} samples every 64.0 KiB" in lines[0] and "serving on" in lines[1], lines
        told = json.loads(subprocess.run([vmag, "attach", "--json", holder.pid], capture_output=True, text=True, check=True).stdout)
        assert told["profile_active"] and told["sample_bytes"] == 65536, told


def check_command_line(vmag):
    for words in ([], ["--pid", "2147483647"], ["--all", "--listen", "nonsense"], ["--all", "--profile", "500k"]):
        done = subprocess.run([vmag, "serve", *words], capture_output=True, text=True, timeout=300)
        assert done.returncode == 125 and done.stderr, (words, done)


def main(vmag, library, program):
    need_tool(vmag)
    check_command_line(vmag)
    with tempfile.TemporaryDirectory() as folder, Holder(library, program) as holder:
        holder.tell("grow", HELD)
        holder.tell("cache", 2)
        with Server(vmag, "--pid", holder.pid, "--arenas", "--classes") as server:
            check_metrics(server, holder)
            check_refusals(server, holder)
            check_leavers(server, holder)
            check_profiles(server, holder, folder)
            check_rules(server, holder, folder)
            check_prometheus(server, holder, folder)
        check_finer(vmag, holder)
    check_all_and_gone(vmag, library, program)


if __name__ == "__main__":
    main(*sys.argv[1:])
