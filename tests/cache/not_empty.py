# Destroying a cache with live objects tells it in one line and goes on: `not_empty.py PROGRAM`.
# SPDX-License-Identifier: BSD-2-Clause
import re
import subprocess
import sys

result = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600, text=True)
lines = result.stderr.splitlines()
print(result)
good = (result.returncode == 0 and len(lines) == 1 and
        re.fullmatch(r"vmag: vmag_cache_destroy\(0x[0-9a-f]+\): cache 'leaky' is not empty: 3 of its objects were not freed", lines[0]))
sys.exit(0 if good else 1)
