# A folder of src is a floor: its files include only their own floor and those below, as src/FLOORS orders them.
# `floors.py ROOT`.  Every folder must be a floor and every floor a folder; relative includes are resolved and judged too.
# SPDX-License-Identifier: BSD-2-Clause
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]', re.MULTILINE)


def read_floors(source):
    with open(os.path.join(source, "FLOORS"), encoding="utf-8") as file:
        lines = [line.split("#")[0].split(None, 1) for line in file]
    undescribed = [line[0] for line in lines if len(line) == 1]
    assert not undescribed, f"floors without a description: {undescribed}"
    return [line[0] for line in lines if line]


def floor_of_include(source, path, name, quoted, floors):
    """The floor that an include leads to, or None when it leaves src."""
    beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
    if quoted and os.path.exists(beside):
        inside = os.path.relpath(beside, source)
        return inside.split(os.sep)[0] if not inside.startswith("..") else None
    first = name.split("/")[0]
    return first if "/" in name and (first in floors or os.path.isdir(os.path.join(source, first))) else None


def faults_of(source, path, floors):
    own = os.path.relpath(path, source).split(os.sep)[0]
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for bracket, name in INCLUDE.findall(text):
        floor = floor_of_include(source, path, name, bracket == '"', floors)
        if floor is not None and floor not in floors:
            yield f'includes "{name}", which is on no floor'
        elif floor is not None and floors.index(floor) > floors.index(own):
            yield f'includes "{name}": {floor} is above {own}'
        if name.endswith(".c"):
            yield f'includes the source file "{name}"'


def main(root):
    source = os.path.join(root, "src")
    floors = read_floors(source)
    folders = sorted(name for name in os.listdir(source) if os.path.isdir(os.path.join(source, name)))
    found = [f"{name}: a folder, but no floor in FLOORS" for name in folders if name not in floors]
    found += [f"{name}: a floor, but no folder with files" for name in floors
              if name not in folders or not os.listdir(os.path.join(source, name))]
    files = [os.path.join(path, name) for floor in floors for path, _, names in os.walk(os.path.join(source, floor))
             for name in names if name.endswith((".c", ".h", ".def"))]
    found += [f"{os.path.relpath(path, source)}: {fault}" for path in files for fault in faults_of(source, path, floors)]
    print(f"{len(floors)} floors, {len(files)} files")
    print("\n".join(found))
    sys.exit(bool(found) or len(files) < 10)


main(sys.argv[1])
