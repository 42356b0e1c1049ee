"""The demo's work in Python: rewrite the standard library's own source, round trips through JSON, large dictionaries.

Says what it did in one line, and checks its own results. With DEMO_FIGURES=FILE it appends its seconds (wall,
processor) and its peak resident KiB to that file.
SPDX-License-Identifier: BSD-2-Clause
"""
import ast
import collections
import json
import os
import resource
import time

SOURCE_FILES = 24
SOURCE_BYTES_MAX = 60_000
JSON_RECORDS = 8_000
JSON_ROUNDS = 2
DICTIONARY_KEYS = 150_000


def main():
    start = time.perf_counter()
    trees = rewrite_sources()
    names = count_names(trees)
    records = json_round_trips(names)
    keys = grow_dictionary()
    print(f"{len(trees)} modules rewritten, {len(names)} names, {records} records, {keys} keys")
    write_figures(time.perf_counter() - start)


def rewrite_sources():
    """Parses modules, writes each tree out as source, parses that again; keeps all trees."""
    folder = os.path.dirname(os.__file__)
    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".py"))
    small = [path for path in paths if os.path.getsize(path) <= SOURCE_BYTES_MAX]
    trees = []
    for path in small[:SOURCE_FILES]:
        with open(path, encoding="utf-8") as source:
            tree = ast.parse(source.read())
        again = ast.parse(ast.unparse(tree))
        assert count_nodes(again) == count_nodes(tree), path
        trees.append(again)
    return trees


def count_nodes(tree):
    return sum(1 for _ in ast.walk(tree))


def count_names(trees):
    return collections.Counter(node.id for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Name))


def json_round_trips(names):
    """Writes and reads a list of small nested records, several times."""
    common = [name for name, _ in names.most_common(100)]
    records = [
        {"number": i, "name": common[i % len(common)], "half": i / 2, "path": [str(i), str(i * 7)], "more": {"odd": i % 2 == 1}}
        for i in range(JSON_RECORDS)
    ]
    for _ in range(JSON_ROUNDS):
        again = json.loads(json.dumps(records))
        assert again == records
        records = again
    return len(records)


def grow_dictionary():
    """Builds a large dictionary, drops every other key, joins and splits what is left."""
    table = {f"key {i * 2654435761 % 2**32:x}": "value " * (i % 9) for i in range(DICTIONARY_KEYS)}
    for key in list(table)[::2]:
        del table[key]
    text = "\n".join(f"{key}={value.upper()}" for key, value in table.items())
    lines = sorted(line.split("=")[0] for line in text.split("\n"))
    assert lines == sorted(table)
    return len(lines)


def write_figures(wall_seconds):
    path = os.environ.get("DEMO_FIGURES")
    if path:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        with open(path, "a", encoding="ascii") as figures:
            print(wall_seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=figures)


main()
