# The program holder.c under a preloaded vmag, told what to allocate; and the vmag command beside it.
# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys

SKIPPED = 77


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(SKIPPED)


def need_tool(vmag):
    if not os.path.exists(vmag):
        skip(f"{vmag} is not built (make tool)")


class Holder:
    def __init__(self, library, program, options="prof:true,lg_prof_sample:16"):
        environment = {**os.environ, "LD_PRELOAD": library, "VMAG_CONF": options}
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.pid = str(self.process.pid)

    def tell(self, what, number):
        self.process.stdin.write(f"{what} {number}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "ok\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
