# need PROGRAM: leaves the script with "skipped" when the program is not installed.
# SPDX-License-Identifier: BSD-2-Clause
need() {
    command -v "$1" >/dev/null || { echo "SKIP: $1 is not installed"; exit 77; }
}
