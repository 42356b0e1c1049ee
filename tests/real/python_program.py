# The program of python.sh: everyday python work whose output depends on the results only.
# SPDX-License-Identifier: BSD-2-Clause
import collections
import concurrent.futures
import decimal
import hashlib
import io
import json
import pickle
import re
import subprocess
import sys
import zlib


def digest(data):
    return hashlib.sha256(data).hexdigest()[:16]


def work(seed):
    table = collections.defaultdict(list)
    for i in range(25000):
        table[f"key{(i * 7919 + seed) % 5003}"].append({"i": i, "text": "x" * (i % 40), "pair": (i, str(i))})
    text = json.dumps(table, sort_keys=True)
    copied = pickle.loads(pickle.dumps(table))
    found = re.findall(r'"text": "(x{10,12})"', text)
    stream = io.StringIO()
    for i in range(12000):
        stream.write(f"{i:06d} {i * i}\n")
    squeezed = zlib.compress(stream.getvalue().encode() * 3, 6)
    return len(copied), len(found), digest(text.encode()), digest(zlib.decompress(squeezed))


print(work(0))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(list(pool.map(work, range(1, 4))))
big = 3 ** 15000
print(digest(str(decimal.Decimal(big % 10 ** 4000)).encode()), sys.getsizeof(big))
matrix = [[(i * j) % 97 for j in range(200)] for i in range(200)]
print(sum(sum(a * b for a, b in zip(row, matrix[1])) for row in matrix))
print([subprocess.run([sys.executable, "-c", f"print(sum(range({n})))"], stdout=subprocess.PIPE, text=True).stdout.strip()
       for n in range(1000, 6000, 1000)])
