// What a program asks of the static library takes malloc, free and all of api/malloc.c along. For GCC's -flto asks for the functions it knows itself, as these
// are, only when archives have been searched: they came from the C library then, and mallocx and operator new from here.
//
// A section that no link keeps: only the name is wanted.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

__asm__(".pushsection .needs_malloc,\"e\",%progbits\n"
	".quad malloc\n"
	".popsection");
