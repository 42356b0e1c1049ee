# nghttpd and h2load, which Debian links with libjemalloc.so.2: many streams of HTTP/2, both ends on the library.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re

import server

REQUESTS, FILE_BYTES = 4000, 30000


def test(allocator, folder):
    server.need("nghttpd", "h2load")
    [port], log, files = server.free_ports(1), os.path.join(folder, "log"), os.path.join(folder, "files")
    os.mkdir(files)
    with open(os.path.join(files, "a"), "wb") as file:
        file.write(os.urandom(FILE_BYTES))
    with server.started([server.find("nghttpd"), "--no-tls", "-a", "127.0.0.1", "-n", "2", "-d", files, str(port)], log, env=allocator.environment()) as process:
        server.wait_until(lambda: server.answers(port), "nghttpd", process)
        allocator.check_maps(process.pid)
        told = server.run(["h2load", "-n", str(REQUESTS), "-c", "10", "-m", "10", "-t", "2", f"http://127.0.0.1:{port}/a"], env=allocator.environment())
        assert f"status codes: {REQUESTS} 2xx" in told, told
        assert int(re.search(r"\((\d+)\) data", told).group(1)) == REQUESTS * FILE_BYTES, told
    server.check_quiet(log)


server.main(test)
