// Reports of caches, arenas and debugged buffers, as text for people or JSON for programs: what mdb's dcmds show of libumem.
//
//   vmag_umem_report(2, "umastat", VMAG_REPORT_TEXT);
//
//   request             what it writes
//   umastat             every cache and arena: in use, memory, allocations, failures                  (::umastat)
//   umem_cache          every object cache with its slabs, magazines and depot                        (::umem_cache)
//   vmem [NAME]         the tree of arenas; with a name the segments of that arena                    (::vmem, ::vmem_seg)
//   whatis ADDRESS      what an address is: cache, buffer, state, who allocated and freed it          (::whatis)
//   findleaks           buffers that nothing refers to, by the stack that allocated them              (::findleaks)
//   umausers            all buffers in use, by the stack that allocated them, largest first           (::umausers)
//   umem_verify         looks at all buffers, and tells of those that are damaged on standard error   (::umem_verify)
//   umem_log [N]        the last N entries of the log of transactions                                 (::umem_log, ::umalog)
//   umem_log fail|contents|slab [N]   the same of the other logs
//   umem_status         options, sizes of logs, what was reported lately                              (::umem_status)
//
// findleaks, umausers, umem_verify and umem_log know buffers that were allocated under UMEM_DEBUG; stacks need audit.
// SPDX-License-Identifier: BSD-2-Clause
#ifndef VMAG_REPORT_H
#define VMAG_REPORT_H

#ifdef __cplusplus
extern "C" {
#endif

enum { VMAG_REPORT_TEXT, VMAG_REPORT_JSON };

// Writes the report to the file. 0; or -1 with errno EINVAL (no such request or format), ENOENT (no arena of that name),
// ENOTSUP (it needs UMEM_DEBUG), ENOMEM, ENODATA (findleaks, and the system does not tell what is mapped), or why the file takes no more (ENOSPC, …). Does not allocate from the heap. Other threads may run; then figures are of slightly different moments.
int vmag_umem_report(int fd, const char *request, int format);

// The same at the end of the process: VMAG_UMEM_REPORT=REQUEST[,json][,PATH] in the environment; without a path on stderr. In the
// path %p is the number of the process, and what is there is added to.

#ifdef __cplusplus
}
#endif

#endif
