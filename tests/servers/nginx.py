# nginx: two workers serve files, compressed and not, to parallel clients; reloaded under load, ended gracefully.
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import gzip
import os
import signal
import urllib.request

import server

FILES, VISITS = 40, 25
CONFIGURATION = """
daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 2;
events {{ worker_connections 512; }}
http {{ access_log off; gzip on; gzip_types *; gzip_min_length 1; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
  fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/files; autoindex on; }} }}
"""


def content(number):
    return f"file {number}\n".encode() * (number * number + 1)


def visit(port, number):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{number % FILES}")
    if number % 3:
        request.add_header("Accept-Encoding", "gzip")
    with urllib.request.urlopen(request) as reply:
        body = reply.read()
    assert (gzip.decompress(body) if number % 3 else body) == content(number % FILES), number


def test(allocator, folder):
    server.need("nginx")
    [port], log = server.free_ports(1), os.path.join(folder, "log")
    os.mkdir(os.path.join(folder, "files"))
    for number in range(FILES):
        with open(os.path.join(folder, "files", str(number)), "wb") as file:
            file.write(content(number))
    with open(os.path.join(folder, "configuration"), "w", encoding="ascii") as file:
        file.write(CONFIGURATION.format(folder=folder, port=port))
    words = [server.find("nginx"), "-c", os.path.join(folder, "configuration"), "-e", os.path.join(folder, "errors")]
    with server.started(words, log, env=allocator.environment()) as process:
        server.wait_until(lambda: server.answers(port), "nginx", process)
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
            workers = children.read().split()
        for pid in [process.pid, *workers]:
            allocator.check_maps(pid)
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            visits = [clients.submit(visit, port, number) for number in range(FILES * VISITS)]
            process.send_signal(signal.SIGHUP)
            for each in visits:
                each.result()
        process.send_signal(signal.SIGQUIT)
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    server.check_quiet(os.path.join(folder, "errors"))
    allocator.check_report(process.pid, 1000)


server.main(test)
