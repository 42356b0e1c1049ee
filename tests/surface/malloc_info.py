# Runs the program given and parses its stdout as the XML of malloc_info: well-formed, root <malloc version=…>, numbers inside.
# SPDX-License-Identifier: BSD-2-Clause
import re
import subprocess
import sys
import xml.etree.ElementTree as tree

result = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE, timeout=600)
assert result.returncode == 0, f"exit status {result.returncode}"
text = result.stdout.decode("ascii")
root = tree.fromstring(text)
assert root.tag == "malloc", f"root element is <{root.tag}>, not <malloc>"
assert "version" in root.attrib, "no version attribute"
elements = list(root.iter())
assert len(elements) > 3, f"only {len(elements)} elements"
numbers = [int(value) for element in elements for key, value in element.attrib.items()
           if key != "version" and re.fullmatch(r"\d+", value)]
assert max(numbers, default=0) > 100 * 1000, "no number tells of the 300 MB that the program holds"
print(f"{len(elements)} elements, {len(numbers)} numbers")
