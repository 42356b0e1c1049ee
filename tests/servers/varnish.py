# varnishd: caches pages of a small backend in front of many clients; hits and the stevedore's bytes are what they must be.
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import http.server
import os
import threading
import urllib.request

import server

PAGES, VISITS, PAGE_BYTES = 200, 5, 20000


class Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 128  # more than varnishd's threads: a refused connection would be an error of the test


class Backend(http.server.BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self):
        Backend.asked += 1
        body = (self.path * PAGE_BYTES)[:PAGE_BYTES].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def visit(port, page):
    path = f"/page{page}"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as reply:
        assert reply.read() == (path * PAGE_BYTES)[:PAGE_BYTES].encode()


def counters(folder):
    lines = server.run(["varnishstat", "-n", folder, "-1"]).splitlines()
    return {line.split()[0]: float(line.split()[1]) for line in lines if line.strip()}


def worker_of(pid):
    """The manager's child, which serves."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        found = children.read().split()
    return int(found[0]) if found else None


def test(allocator, folder):
    server.need("varnishd", "varnishstat")
    backend = Listener(("127.0.0.1", 0), Backend)
    threading.Thread(target=backend.serve_forever, daemon=True).start()
    [port], state, log = server.free_ports(1), os.path.join(folder, "state"), os.path.join(folder, "log")
    # No pings: a SIGTERM that comes while the manager waits for the reply to one makes it end with a status of its own, whatever the allocator.
    words = [server.find("varnishd"), "-F", "-j", "none", "-n", state, "-a", f"127.0.0.1:{port}", "-s", "malloc,64m",
             "-b", f"127.0.0.1:{backend.server_port}", "-p", "thread_pool_min=10", "-p", "connect_timeout=60",
             "-p", "cli_timeout=300", "-p", "ping_interval=0"]
    with server.started(words, log, env=allocator.environment()) as process:
        server.wait_until(lambda: server.answers(port), "varnishd", process)
        server.wait_until(lambda: worker_of(process.pid), "the worker", process)
        worker = worker_of(process.pid)
        for pid in (process.pid, worker):
            allocator.check_maps(pid)
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            list(clients.map(lambda page: visit(port, page % PAGES), range(PAGES * VISITS)))
        assert PAGES <= Backend.asked < PAGES * 2, Backend.asked
        # Threads add to the shared counters when they come to rest.
        server.wait_until(lambda: counters(state)["MAIN.cache_hit"] + Backend.asked >= PAGES * VISITS, "counters", process)
        told = counters(state)
        assert told["MAIN.cache_hit"] >= PAGES * (VISITS - 2), told
        assert told["SMA.s0.g_bytes"] > PAGES * PAGE_BYTES, told
        assert told["MGT.child_died"] == told["MGT.child_panic"] == 0, told
        process.terminate()
        assert process.wait(server.SECONDS) == 0
    backend.shutdown()
    server.check_quiet(log)
    allocator.check_report(process.pid, 1000)


server.main(test)
