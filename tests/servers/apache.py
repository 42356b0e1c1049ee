# apache: processes and threads (event, prefork) serve files, compressed, and PHP where it has it, to parallel clients; gracefully restarted under load.
# SPDX-License-Identifier: BSD-2-Clause
import concurrent.futures
import getpass
import glob
import gzip
import http.client
import os
import signal
import time
import urllib.error
import urllib.request

import server

MODULES = "/usr/lib/apache2/modules"
WANTED = ("authz_core", "dir", "mime", "deflate", "filter", "rewrite", "headers", "autoindex", "setenvif", "env", "alias", "status")
FILES, VISITS = 30, 10
PROGRAM = "<?php $a = []; for ($i = 0; $i < 3000; $i++) $a[\"k$i\"] = str_repeat('x', $i % 100); ksort($a); echo md5(json_encode($a));"
CONFIGURATION = """
ServerRoot {folder}
ServerName test
TypesConfig /dev/null
PidFile {folder}/pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/errors
Listen 127.0.0.1:{port}
User {user}
Group {group}
{modules}
DocumentRoot {folder}/files
AddOutputFilterByType DEFLATE text/plain
ForceType text/plain
<Directory {folder}/files>
Require all granted
</Directory>
StartServers 2
MaxConnectionsPerChild 300
"""
PHP = """
<FilesMatch "[.]php$">
ForceType None
SetHandler application/x-httpd-php
</FilesMatch>
"""


def content(number):
    return f"file {number}\n".encode() * (number * number + 1)


def fetch(port, name):
    request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as reply:
        body = reply.read()
        return gzip.decompress(body) if reply.headers.get("Content-Encoding") == "gzip" else body


def visit(port, number):
    """A restart resets connections that no process has taken yet, with any malloc."""
    for attempt in range(20):
        try:
            assert fetch(port, number % FILES) == content(number % FILES), number
            return
        except (ConnectionError, http.client.HTTPException, urllib.error.URLError) as error:
            assert attempt < 19 and not isinstance(error, urllib.error.HTTPError), (number, error)
            time.sleep(0.05)


def configuration(folder, port, model, php):
    modules = [f"mpm_{model}", *(name for name in WANTED if os.path.exists(f"{MODULES}/mod_{name}.so"))]
    lines = [f"LoadModule {name}_module {MODULES}/mod_{name}.so" for name in modules]
    lines += [f"LoadModule php_module {php}"] if php else []
    user, group = ("www-data", "www-data") if os.geteuid() == 0 else (getpass.getuser(), f"#{os.getgid()}")
    text = CONFIGURATION.format(folder=folder, port=port, user=user, group=group, modules="\n".join(lines))
    return text + (PHP if php else "")


def serve(allocator, folder, model):
    php = next(iter(glob.glob(f"{MODULES}/libphp*.so")), None) if model == "prefork" else None
    [port], log, file = server.free_ports(1), os.path.join(folder, f"log.{model}"), os.path.join(folder, f"configuration.{model}")
    with open(file, "w", encoding="ascii") as text:
        text.write(configuration(folder, port, model, php))
    # A session of its own: at its end apache signals its process group.
    with server.started([server.find("apache2"), "-f", file, "-DFOREGROUND"], log, env=allocator.environment(), start_new_session=True) as process:
        server.wait_until(lambda: server.answers(port), "apache", process)
        allocator.check_maps(process.pid)
        visit(port, 0)  # whoever answers was made by a process that takes signals
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            for _ in range(3):
                visits = [clients.submit(visit, port, number) for number in range(FILES * VISITS)]
                process.send_signal(signal.SIGUSR1)
                for each in visits:
                    each.result()
            programs = set(clients.map(lambda _: fetch(port, "program.php"), range(60 if php else 0)))
        assert len(programs) == (1 if php else 0) and all(len(told) == 32 for told in programs), programs
        process.terminate()
        assert process.wait(server.SECONDS) == 0
    server.check_quiet(log)
    server.check_quiet(os.path.join(folder, "errors"))
    with open(os.path.join(folder, "errors"), encoding="utf-8", errors="replace") as errors:
        ended = [line for line in errors if "exit signal" in line]
    assert not ended, ended
    allocator.check_report(process.pid, 1000)


def test(allocator, folder):
    server.need("apache2")
    os.mkdir(os.path.join(folder, "files"))
    for number in range(FILES):
        with open(os.path.join(folder, "files", str(number)), "wb") as file:
            file.write(content(number))
    with open(os.path.join(folder, "files", "program.php"), "w", encoding="ascii") as file:
        file.write(PROGRAM)
    for model in ("event", "prefork"):
        serve(allocator, folder, model)


server.main(test)
