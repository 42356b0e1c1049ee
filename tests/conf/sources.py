# Options from every source, the later one wins; complaints name the source; confirm_conf tells all. `sources.py PLAIN WITH_STRINGS`.
# SPDX-License-Identifier: BSD-2-Clause
import os
import subprocess
import sys


def run(program, **environment):
    clean = {key: value for key, value in os.environ.items() if key not in ("MALLOC_CONF", "MALLOC_OPTIONS", "VMAG_CONF")}
    done = subprocess.run([program], env={**clean, **environment}, capture_output=True, text=True, timeout=200)
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    return done.returncode, {line[0]: (line[2], line[3]) for line in lines}, done.stderr


def expect(result, **wanted):
    code, options, errors = result
    assert code == 0 and errors == "", (code, errors[:500])
    for name, value in wanted.items():
        assert options[name] == value, (name, options[name], value)


def main(plain, with_strings):
    expect(run(plain), narenas=("0", "default"), thp=("default", "default"))
    expect(run(plain, MALLOC_CONF="narenas:3"), narenas=("3", "MALLOC_CONF"))
    expect(run(plain, MALLOC_CONF="narenas:3", VMAG_CONF="narenas:4"), narenas=("4", "VMAG_CONF"))
    expect(run(plain, MALLOC_OPTIONS="AJZUPXVp"), abort=("true", "MALLOC_OPTIONS"), junk=("true", "MALLOC_OPTIONS"),
           zero=("true", "MALLOC_OPTIONS"), utrace=("true", "MALLOC_OPTIONS"), stats_print=("false", "MALLOC_OPTIONS"),
           xmalloc=("true", "MALLOC_OPTIONS"), zero_size_null=("true", "MALLOC_OPTIONS"))
    expect(run(plain, MALLOC_OPTIONS="AJajKkQqSs"), abort=("false", "MALLOC_OPTIONS"), junk=("false", "MALLOC_OPTIONS"))
    expect(run(plain, MALLOC_OPTIONS="N"), narenas_ratio=("8", "MALLOC_OPTIONS"))
    expect(run(plain, MALLOC_OPTIONS="3n"), narenas_ratio=("0.5", "MALLOC_OPTIONS"))
    expect(run(plain, MALLOC_OPTIONS="nnN"), narenas_ratio=("2", "MALLOC_OPTIONS"))
    expect(run(plain, MALLOC_OPTIONS="H"), dirty_decay_ms=("0", "MALLOC_OPTIONS"))
    expect(run(plain, MALLOC_OPTIONS="H", MALLOC_CONF="dirty_decay_ms:9"), dirty_decay_ms=("9", "MALLOC_CONF"))
    expect(run(with_strings), narenas=("2", "malloc_conf"), depot_bytes=("1000", "malloc_conf"), junk=("false", "_malloc_options"),
           zero_size_null=("true", "_malloc_options"), narenas_ratio=("1", "_malloc_options"),
           stats_print_opts=("c", "malloc_conf_2_conf_harder"))
    expect(run(with_strings, MALLOC_OPTIONS="J", MALLOC_CONF="depot_bytes:7,stats_print_opts:b"), junk=("false", "_malloc_options"),
           depot_bytes=("7", "MALLOC_CONF"), stats_print_opts=("c", "malloc_conf_2_conf_harder"))

    for source, value in (("MALLOC_CONF", "narena:1"), ("MALLOC_OPTIONS", "W"), ("VMAG_CONF", "thp:yes")):
        code, _, errors = run(plain, **{source: value})
        assert code == 0 and errors.count("\n") == 1 and errors.startswith(f"vmag: {source}: {value}: "), errors
        code, _, errors = run(plain, **{"VMAG_CONF": "abort_conf:true", source: value if source != "VMAG_CONF" else value + ",abort_conf:true"})
        assert code == -6, (code, errors)

    _, _, errors = run(with_strings, MALLOC_CONF="confirm_conf:true,narenas:5")
    for line in ("vmag: options of MALLOC_CONF: confirm_conf:true,narenas:5\n", "vmag: options of VMAG_CONF: none\n",
                 "vmag: option narenas:5 of MALLOC_CONF\n", "vmag: option stats_print_opts:c of malloc_conf_2_conf_harder\n"):
        assert line in errors, (line, errors)


main(*sys.argv[1:])
