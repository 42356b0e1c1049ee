# The option attach_any: whom the process lets read it, as its calls of prctl tell, its child's, too. `let_read.py LIBRARY PRCTL`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys


def said(library, prctl, conf):
    environment = {**os.environ, "VMAG_CONF": conf, "LD_PRELOAD": f"{prctl} {library}"}
    run = subprocess.run(["sh", "-c", "( : ); :"], env=environment, stderr=subprocess.PIPE, text=True, check=True)
    return run.stderr.splitlines()


def main(library, prctl):
    assert said(library, prctl, "") == []
    assert said(library, prctl, "attach_any:true,publish:false") == []
    both = said(library, prctl, "attach_any:true")
    assert both == ["parent lets all read", "child lets all read"], both


main(*sys.argv[1:])
