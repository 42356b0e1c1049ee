# The face of vmag: what one types. CMake does the work (CMakeLists.txt), cargo builds the tool (tool/build.sh).
# SPDX-License-Identifier: BSD-2-Clause
BUILD ?= build
JOBS  ?= $(shell nproc)
TESTS ?= .
# For a new build folder: of the processor time that building the tests takes, make itself uses a fifth, ninja a thirtieth.
NINJA := $(if $(CMAKE_GENERATOR),,$(if $(shell command -v ninja 2>/dev/null),-G Ninja))
# Status 3: no cargo here; the library needs none.
BUILD_TOOL = tool/build.sh "$(BUILD)" || [ $$? -eq 3 ]
MAKEFLAGS += --no-print-directory

.PHONY: all library tool run test checked programs bench experiments install clean help

all: library tool ## the library and the vmag command

library:
	@scripts/setup.sh build
	@cmake -S . -B "$(BUILD)" $$([ -e "$(BUILD)/CMakeCache.txt" ] || echo -DVMAG_TESTS=OFF $(NINJA)) >/dev/null
	@cmake --build "$(BUILD)" -j $(JOBS) --target vmag vmag_static

tool: library
	@$(BUILD_TOOL)

run: all ## a real program on vmag, beside the C library's malloc
	@scripts/demo.sh

# The tool is built and checked beside the tests' programs: either leaves a processor idle at times.
test: ## all tests
	@scripts/setup.sh build test
	@$(MAKE) library
	@cmake -S . -B "$(BUILD)" -DVMAG_TESTS=ON >/dev/null
	@$(MAKE) -j2 checked programs
	@ctest --test-dir "$(BUILD)" -j $(JOBS) --output-on-failure -R "$(TESTS)"

checked:
	@$(BUILD_TOOL)
	@if [ -x "$(BUILD)/bin/vmag" ]; then CARGO_TARGET_DIR="$$(cd "$(BUILD)" && pwd)/tool" tool/check.sh "$(BUILD)/lib/libvmag.so"; fi

programs:
	@env -u MAKEFLAGS -u MFLAGS cmake --build "$(BUILD)" -j $(JOBS)

bench: library ## comparison with other allocators, about 20 minutes; bench/run.py --help
	@scripts/setup.sh bench
	@bench/run.py

experiments: all ## the papers' experiments redone: hours; bench/redo.py --quick in five minutes
	@bench/redo.py $(EXPERIMENTS)

install: library ## to /usr/local, or PREFIX; below DESTDIR
	@umask 022; cmake --install "$(BUILD)" $(if $(PREFIX),--prefix "$$(realpath -ms -- "$(PREFIX)")")

clean:
	rm -rf -- "$(BUILD)"

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1 \t\2/p' Makefile | expand -t 20
