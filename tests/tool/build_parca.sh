#!/bin/sh
# Builds Parca for tool.parca: `build_parca.sh FOLDER`, by default build/parca.  Needs Go and its module proxy; some ten minutes of two
# processors and 4 GB of modules and objects, once.  Parca's web pages are not in its module: one of ours stands for them.
# SPDX-License-Identifier: BSD-2-Clause
set -eu
module=github.com/parca-dev/parca@v0.20.0
folder=$(mkdir -p "${1:-build/parca}" && cd "${1:-build/parca}" && pwd)
command -v go >/dev/null || { echo "go is not installed: Parca cannot be built" >&2; exit 1; }

source=$(cd "$folder" && GOFLAGS=-mod=mod go mod download -json "$module" | sed -n 's/^.*"Dir": "\(.*\)",*$/\1/p')
rm -rf "$folder/source"
cp -R "$source" "$folder/source"
chmod -R u+w "$folder/source"
mkdir -p "$folder/source/ui/packages/app/web/build"
echo '<html></html>' >"$folder/source/ui/packages/app/web/build/index.html"
# One of its libraries reaches into Go's run time, which linkers from Go 1.23 on refuse unless told so.
(cd "$folder/source" && nice go build -p 2 -ldflags=-checklinkname=0 -o "$folder/parca" ./cmd/parca)
rm -rf "$folder/source"
echo "$folder/parca"
