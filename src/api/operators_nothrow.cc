// Exported: the nothrow forms of operator new, in C++ because they must catch what a new handler throws.
//
// Nothing here may need the C++ library at load time, lest every C program get it: what the compiler calls for try and
// catch is looked up by who catches (src/api/operators.c), and present wherever something can throw.
// SPDX-License-Identifier: BSD-2-Clause
using size_t = decltype(sizeof 0);

__asm__(".weak __gxx_personality_v0\n.weakref __cxa_begin_catch, operators_begin_catch\n.weakref __cxa_end_catch, operators_end_catch");

extern "C" void *operators_new_nothrow(size_t size, size_t align);

// `align` 0: the default one.
extern "C" __attribute__((visibility("hidden"))) void *operators_new_nothrow_caught(size_t size, size_t align)
{
	try {
		return operators_new_nothrow(size, align);
	} catch (...) {
		return nullptr;
	}
}

// The same of an operator of the program's own.
extern "C" __attribute__((visibility("hidden"))) void *operators_new_caught(void *(*make)(size_t), size_t size)
{
	try {
		return make(size);
	} catch (...) {
		return nullptr;
	}
}

extern "C" __attribute__((visibility("hidden"))) void *operators_aligned_new_caught(void *(*make)(size_t, size_t), size_t size, size_t align)
{
	try {
		return make(size, align);
	} catch (...) {
		return nullptr;
	}
}
