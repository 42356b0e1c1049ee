// Controls: jemalloc's name space of statistics and switches, read and written by mallctl.
//
// A name leads through a tree to a row of controls.def; a MIB is the path through that tree, whose places of an index hold the
// index. The rules for buffers and lengths are jemalloc's and are kept in one place (control.c):
//   a name that is not there, an index out of range, what is absent here     ENOENT
//   writing what is only read, reading what is only written, any buffer where nothing is read or written   EPERM
//   *oldlenp not the size of the type: as much as fits is copied, *oldlenp says how much                   EINVAL
//   the number of what is to be made has no place: nothing is made, *oldlenp becomes 0                     EINVAL
//   newlen not the size of the type                                                                        EINVAL
//   a value that cannot be                                                                                 EFAULT
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

// As mallctl and mallctlbymib.
int control_by_name(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);
int control_by_mib(const size_t *mib, size_t length, void *oldp, size_t *oldlenp, void *newp, size_t newlen);

// The MIB of a name or of the first components of one; `*length`: places in `mib`, then places used.
int control_mib(const char *name, size_t *mib, size_t *length);

// The table: a line of tab-separated fields for each control: name, type, access, meaning.
void controls_print(void (*put)(void *argument, const char *line), void *argument);

// For fork: before all other locks, and after them.
void controls_fork_prepare(void);
void controls_fork_done(void);

/*
 * Inside: rows, the tree, and what handlers see.
 */

enum control_type {
	CONTROL_VOID, CONTROL_BOOL, CONTROL_UNSIGNED, CONTROL_U32, CONTROL_U64, CONTROL_I64, CONTROL_SIZE, CONTROL_SSIZE,
	CONTROL_STRING, CONTROL_POINTER, CONTROL_PAIR, CONTROL_STRUCT
};
enum control_access { CONTROL_ACT, CONTROL_READ, CONTROL_CHANGE, CONTROL_OWN };
enum { CONTROL_INDICES = 2 };

union control_value {
	bool boolean;
	unsigned number;
	uint64_t u64;
	int64_t i64;
	size_t size;
	ssize_t ssize;
	const char *string;
	void *pointer;
	uint64_t pair[2];
};

// A call of a control. READ: the handler fills `value`. CHANGE: the same, then it is called again with `writes` set and takes
// `value`. OWN: the handler uses the caller's buffers.
struct control_call {
	unsigned index[CONTROL_INDICES];
	size_t argument;
	union control_value value;
	bool writes;
	void *oldp;
	size_t *oldlenp;
	void *newp;
	size_t newlen;
};

// 0, or an error number.
typedef int control_handler(struct control_call *call);

// Without pointers: each would cost every process a relocation in memory of its own. Handlers and meanings are in control.c.
struct control {
	char name[64];
	uint8_t type, access;
	uint32_t argument;
};

extern const struct control control_rows[];
extern const size_t control_count;

// The row of a name or a MIB, and its indices; ENOENT: there is none. A MIB must be complete.
int control_find_name(const char *name, const struct control **row, unsigned index[CONTROL_INDICES]);
int control_find_mib(const size_t *mib, size_t length, const struct control **row, unsigned index[CONTROL_INDICES]);

// The mutex of the tree, for its figures.
struct mutex *names_mutex(void);

// Pieces of the rules, for handlers of OWN. READ copies a value to the caller's buffer, if there is one.
int control_put(struct control_call *call, const void *value, size_t size);
int control_take(struct control_call *call, void *value, size_t size); // a value must be written: EINVAL
int control_must_read(struct control_call *call, size_t size); // a buffer of that size must be there, for nobody else would know what is made
int control_only_read(const struct control_call *call);
int control_only_written(const struct control_call *call);

// Limits of the indices.
unsigned control_arenas(void); // the number that stands for all arenas, beside 4096
enum { CONTROL_ALL = 4096, CONTROL_DESTROYED = 4097 };

const char *control_dss(unsigned id); // the word that arena.<id>.dss keeps

control_handler absent, read_zero, read_yes, read_no, act_reset_mutexes;
control_handler read_version, own_epoch, change_background_thread, change_max_background_threads;
control_handler read_debug, read_build_options, read_option, read_source, own_safety_check_abort;
control_handler change_thread_arena, read_thread_allocated, read_thread_allocatedp, read_thread_deallocated, read_thread_deallocatedp;
control_handler change_thread_tcache_enabled, act_thread_tcache_flush, read_thread_peak, act_thread_peak_reset, act_thread_idle;
control_handler own_tcache_create, own_tcache_flush, own_tcache_destroy;
control_handler read_arena_initialized, act_arena_decay, act_arena_purge, act_arena_reset, act_arena_destroy, change_arena_dss;
control_handler change_arena_oversize, change_arena_dirty_decay, change_arena_muzzy_decay, change_arena_hooks;
control_handler change_arena_retain_grow_limit, read_narenas, change_arenas_dirty_decay, change_arenas_muzzy_decay;
control_handler own_arena_name, read_hugepage, read_active_now;
control_handler change_thread_tcache_max;
control_handler read_quantum, read_page, read_tcache_max, read_nbins, read_nhbins, read_bin_size, read_bin_nregs;
control_handler read_bin_slab_size, read_bin_nshards, read_nlextents, read_lextent_size;
control_handler own_arenas_create, own_arenas_lookup, own_arenas_create_ext, own_batch_alloc;
control_handler own_utilization_query, own_utilization_batch_query;
control_handler change_prof_active, change_prof_gdump, change_prof_thread_active_init, change_thread_prof_active;
control_handler read_prof_interval, read_prof_lg_sample, own_prof_dump, own_prof_prefix, own_prof_reset, own_thread_prof_name;
control_handler change_trace_active, own_trace_prefix, change_trace_flag, change_trace_limit;
control_handler read_prof_stats, change_prof_backtrace_hook, change_prof_dump_hook;
control_handler read_total, read_zero_reallocs, read_arena, read_arena_zero, read_bin, read_lextent, read_dss;
