// Which build of a program or library is mapped: the number that the linker gave it, by which names are found elsewhere.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include "os/areas.h"

enum { OS_BUILD_LINE = 160 };

// "build START ID\n", in hexadecimal: of the file whose code the area is, as its beginning in memory says. Its length, below OS_BUILD_LINE, with a zero behind
// it; 0: it has no such number, or its beginning does not lie before the area. `areas`: the walk that found the area.
size_t os_build_line(const struct os_areas *areas, const struct os_area *area, char line[OS_BUILD_LINE]);
