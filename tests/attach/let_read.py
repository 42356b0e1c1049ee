# The option attach_any: whom the process lets read it, as its system calls tell, its child's, too. `let_read.py LIBRARY LET_READ`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys

SKIPPED = 77


def said(library, let_read, conf):
    command = ["env", f"VMAG_CONF={conf}", f"LD_PRELOAD={library}", "sh", "-c", "( : ); :"]
    run = subprocess.run([let_read, *command], stderr=subprocess.PIPE, text=True, check=False)
    if run.returncode == SKIPPED:
        print(run.stderr)
        sys.exit(SKIPPED)
    assert run.returncode == 0, run
    return run.stderr.splitlines()


def main(library, let_read):
    assert said(library, let_read, "") == []
    assert said(library, let_read, "attach_any:true,publish:false") == []
    both = said(library, let_read, "attach_any:true")
    assert both == ["parent lets all read", "child lets all read"], both


main(*sys.argv[1:])
