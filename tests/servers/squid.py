# squid: a cache in front of a server of ours, files fetched through it by parallel clients, read anew under load, ended in order.
# It deletes objects as their smaller bases from its start on (docs/decisions/0006).
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import functools
import getpass
import http.server
import os
import pwd
import signal
import threading
import urllib.request

import server

FILES, VISITS = 30, 6
CONFIGURATION = """
http_port 127.0.0.1:{port}
pid_filename {folder}/pid
cache_log {folder}/cache/log
access_log none
cache_mem 16 MB
coredump_dir {folder}
http_access allow all
refresh_pattern . 10 20% 20
visible_hostname test
pinger_enable off
shutdown_lifetime 0 seconds
cache_effective_user {user}
"""


def user_for(*paths):
    """squid does not run as root: then the user that its package brings, to whom what it writes belongs."""
    if os.geteuid() != 0:
        return getpass.getuser()
    try:
        user = pwd.getpwnam("proxy")
    except KeyError:
        server.skip("there is no user proxy to run it as")
    for path in paths:
        os.chown(path, user.pw_uid, user.pw_gid)
    return user.pw_name


def listens_anew(cache):
    """squid says that it reads its configuration before it closes its port: until then the old one answers."""
    with open(os.path.join(cache, "log"), "rb") as log:
        _, anew, then = log.read().partition(b"Reconfiguring")
        return anew and b"Accepting HTTP" in then


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def content(number):
    return f"file {number}\n".encode() * (number * number + 1)


def visit(proxy, origin, number):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{proxy}"}))
    with opener.open(f"http://127.0.0.1:{origin}/{number % FILES}") as reply:
        assert reply.read() == content(number % FILES), number


def visit_all(proxy, origin):
    with concurrent.futures.ThreadPoolExecutor(6) as clients:
        list(clients.map(lambda number: visit(proxy, origin, number), range(FILES * VISITS)))


def test(allocator, folder):
    server.need("squid")
    files, log = os.path.join(folder, "files"), os.path.join(folder, "output")
    os.mkdir(files)
    for number in range(FILES):
        with open(os.path.join(files, str(number)), "wb") as file:
            file.write(content(number))
    [port] = server.free_ports(1)
    origin = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=files))
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    cache, configuration = os.path.join(folder, "cache"), os.path.join(folder, "configuration")
    os.mkdir(cache)
    with open(allocator.report, "wb"):
        pass
    user = user_for(cache, allocator.report)
    with open(configuration, "w", encoding="ascii") as file:
        file.write(CONFIGURATION.format(folder=folder, port=port, user=user))
    squid = [server.find("squid"), "-N", "-n", f"vmag{os.getpid()}", "-f", configuration]  # a name of its own for shared memory
    with server.started(squid, log, env=allocator.environment()) as process:
        server.wait_until(lambda: server.answers(port), "squid", process)
        allocator.check_maps(process.pid)
        visit_all(port, origin.server_port)
        process.send_signal(signal.SIGHUP)
        server.wait_until(lambda: listens_anew(cache), "squid with its configuration read anew", process)
        visit_all(port, origin.server_port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    server.check_quiet(os.path.join(cache, "log"))
    allocator.check_report(process.pid, 1000)


server.main(test)
