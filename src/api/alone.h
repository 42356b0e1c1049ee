// System calls before which the background thread goes, if the C library does not know of it (os/unseen.h).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

// It comes back when it is wanted again, but not in a child that the call makes. Signals are blocked meanwhile: no handler leaves it by a longjmp.
long call_alone(long number, long a, long b, long c, long d, long e);

// Of what shuts the process in (os/sandbox.h): the background thread ends, of either kind, for filters may be for all threads. None comes after it, and no other call, for a filter may forbid that. What the kernel refuses shuts nobody in:
// programs ask in this way what it can do. Nor does what a child does that shares its parent's memory (vfork), whose flag is the parent's.
long call_shut_in(long number, long a, long b, long c, long d, long e);
