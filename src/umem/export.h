// What makes a function one of the library's exported ones.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#define EXPORT __attribute__((visibility("default")))
