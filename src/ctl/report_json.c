// Report as JSON, with jemalloc's keys.
// SPDX-License-Identifier: BSD-2-Clause
#include <string.h>

#include "conf/options.h"
#include "ctl/control.h"
#include "ctl/report.h"
#include "ctl/snapshot.h"
#include "heap/explicit.h"
#include "heap/heap.h"
#include "jemalloc/jemalloc.h"

enum {
	EXTENT_SIZES = LARGE_CLASSES + 3, // of whole pages of 4 KiB
	HUGE_PAGE_SLABS = 64,             // kinds of partly used ones
};

static void comma(struct report *report)
{
	if (!report->first)
		report_add(report, ",");
	report->first = false;
}

static void key(struct report *report, const char *name)
{
	comma(report);
	report_add(report, "\"%s\":", name);
}

static void open_object(struct report *report, const char *name)
{
	key(report, name);
	report_add(report, "{");
	report->first = true;
}

static void close_object(struct report *report)
{
	report_add(report, "}");
	report->first = false;
}

static void number(struct report *report, const char *name, uint64_t value)
{
	key(report, name);
	report_add(report, "%lu", (unsigned long)value);
}

static void signed_number(struct report *report, const char *name, int64_t value)
{
	key(report, name);
	report_add(report, "%ld", (long)value);
}

static void boolean(struct report *report, const char *name, bool value)
{
	key(report, name);
	report_add(report, "%s", value ? "true" : "false");
}

static void string(struct report *report, const char *name, const char *value)
{
	char character[8];

	key(report, name);
	report_add(report, "\"");
	while (*value != '\0') {
		value += text_json(value, character);
		report_add(report, "%s", character);
	}
	report_add(report, "\"");
}

// Ratios are texts, as jemalloc writes them; the controls tell them in 1/65536.
static bool ratio(struct report *report, const char *name)
{
	const struct option *option = option_find(name, strlen(name));
	char digits[32];
	struct text text = text_into(digits, sizeof digits - 1);

	if (option == NULL || option->kind != OPTION_RATIO)
		return false;
	option_print(&text, option);
	*text.at = '\0';
	string(report, name, option_number(option) == UINT32_MAX ? "-1" : digits);
	return true;
}

// The value of a control; its name's last component is the key.
static void control(struct report *report, const struct control *row)
{
	union control_value value = { 0 };
	size_t size = row->type == CONTROL_BOOL ? 1 : row->type == CONTROL_UNSIGNED ? 4 : 8;
	const char *name = strrchr(row->name, '.') + 1;

	if (control_by_name(row->name, &value, &size, NULL, 0) != 0)
		return;
	if (row->type == CONTROL_BOOL)
		boolean(report, name, value.boolean);
	else if (row->type == CONTROL_STRING)
		string(report, name, value.string);
	else if (row->type != CONTROL_UNSIGNED)
		signed_number(report, name, value.i64);
	else if (!ratio(report, name))
		number(report, name, value.number);
}

static void controls_below(struct report *report, const char *object, const char *prefix)
{
	open_object(report, object);
	for (size_t i = 0; i < control_count; i++)
		if (strncmp(control_rows[i].name, prefix, strlen(prefix)) == 0)
			control(report, &control_rows[i]);
	close_object(report);
}

// The settings of the profiler, which is always there.
static void profiler(struct report *report)
{
	static const char names[][24] = { "prof.thread_active_init", "prof.active", "prof.gdump", "prof.interval", "prof.lg_sample" };

	open_object(report, "prof");
	for (size_t i = 0; i < control_count; i++)
		for (size_t j = 0; j < sizeof names / sizeof names[0]; j++)
			if (strcmp(control_rows[i].name, names[j]) == 0)
				control(report, &control_rows[i]);
	close_object(report);
}

static void classes(struct report *report)
{
	open_object(report, "arenas");
	number(report, "narenas", arenas_numbers());
	signed_number(report, "dirty_decay_ms", arenas_dirty_decay_ms());
	signed_number(report, "muzzy_decay_ms", arenas_muzzy_decay_ms());
	for (size_t i = 0; i < control_count; i++)
		if (strcmp(control_rows[i].name, "arenas.quantum") == 0)
			for (int more = 0; more < 6; more++) // quantum, page, hugepage, tcache_max, nbins, nhbins
				control(report, &control_rows[i + (size_t)more]);
	key(report, "bin");
	report_add(report, "[");
	for (unsigned class = 1; class < SLAB_CLASSES; class++) {
		struct slab_shape shape = slab_shape_for(class_size(class));

		report_add(report, "%s{\"size\":%zu,\"nregs\":%zu,\"slab_size\":%zu,\"nshards\":1}", class > 1 ? "," : "",
			   (size_t)shape.size, (size_t)shape.buffers, (size_t)shape.slab_bytes);
	}
	report_add(report, "]");
	number(report, "nlextents", LARGE_CLASSES);
	key(report, "lextent");
	report_add(report, "[");
	for (unsigned i = 0; i < LARGE_CLASSES; i++)
		report_add(report, "%s{\"size\":%zu}", i > 0 ? "," : "", class_size(i + SLAB_CLASSES));
	report_add(report, "]");
	close_object(report);
}

static void mutex_counters(struct report *report, const struct mutex_figures *of)
{
	report_add(report,
		   "{\"num_ops\":%lu,\"num_wait\":%lu,\"num_spin_acq\":%lu,\"num_owner_switch\":0,\"total_wait_time\":%lu,"
		   "\"max_wait_time\":%lu,\"max_num_thds\":%lu}",
		   of->ops, of->waits, of->spins, of->wait_ns, of->most_wait_ns, of->most_waiting);
}

// `names`: separated by blanks; a digit in front says which of the figures. Without one there is no such mutex.
static void mutexes(struct report *report, const char *names, const struct mutex_figures *const figures[])
{
	static const struct mutex_figures none;
	char name[32];

	open_object(report, "mutexes");
	while (*names != '\0') {
		const struct mutex_figures *of = *names >= '0' && *names <= '9' ? figures[*names++ - '0'] : &none;
		size_t length = strcspn(names, " ");

		memcpy(name, names, length);
		name[length] = '\0';
		key(report, name);
		mutex_counters(report, of);
		names += length + (names[length] == ' ');
	}
	close_object(report);
}

static void totals(struct report *report)
{
	const struct totals *totals = snapshot_totals();

	open_object(report, "stats");
	number(report, "allocated", totals->allocated);
	number(report, "active", totals->active);
	number(report, "metadata", totals->metadata);
	number(report, "metadata_thp", totals->metadata_thp);
	number(report, "resident", totals->resident);
	number(report, "mapped", totals->mapped);
	number(report, "retained", totals->retained);
	number(report, "zero_reallocs", (size_t)heap_zero_reallocs);
	open_object(report, "background_thread");
	number(report, "num_threads", totals->background_threads);
	number(report, "num_runs", totals->background_runs);
	number(report, "run_interval", totals->background_interval_ns);
	close_object(report);
	if (report->mutexes)
		mutexes(report,
			"background_thread max_per_bg_thd 0ctl 1prof prof_thds_data prof_dump prof_recent_alloc prof_recent_dump "
			"prof_stats",
			(const struct mutex_figures *const[]){ &totals->ctl, &totals->prof });
	close_object(report);
}

static void kind(struct report *report, const char *name, const struct kind_figures *kind)
{
	open_object(report, name);
	number(report, "allocated", kind->allocated);
	number(report, "nmalloc", kind->nmalloc);
	number(report, "ndalloc", kind->ndalloc);
	number(report, "nrequests", kind->nrequests);
	number(report, "nfills", kind->nfills);
	number(report, "nflushes", kind->nflushes);
	close_object(report);
}

static void bins(struct report *report, const struct arena_figures *figures)
{
	key(report, "bins");
	report_add(report, "[");
	for (unsigned i = 0; i < BINS; i++) {
		const struct bin_figures *bin = &figures->bins[i];

		report_add(report,
			   "%s{\"nmalloc\":%lu,\"ndalloc\":%lu,\"curregs\":%zu,\"nrequests\":%lu,\"nfills\":%lu,\"nflushes\":%lu,"
			   "\"nreslabs\":%lu,\"curslabs\":%zu,\"nonfull_slabs\":%zu",
			   i > 0 ? "," : "", bin->nmalloc, bin->ndalloc, bin->curregs, bin->nrequests, bin->nfills, bin->nflushes,
			   bin->nreslabs, bin->curslabs, bin->nonfull_slabs);
		if (report->mutexes) {
			report_add(report, ",\"mutex\":");
			mutex_counters(report, &bin->mutex);
		}
		report_add(report, "}");
	}
	report_add(report, "]");
}

static void lextents(struct report *report, const struct arena_figures *figures)
{
	key(report, "lextents");
	report_add(report, "[");
	for (unsigned i = 0; i < LARGE_CLASSES; i++)
		report_add(report, "%s{\"curlextents\":%zu}", i > 0 ? "," : "", figures->lextents[i].curlextents);
	report_add(report, "]");
}

static void decay(struct report *report, const struct arena_figures *figures)
{
	signed_number(report, "dirty_decay_ms", figures->dirty_decay_ms);
	signed_number(report, "muzzy_decay_ms", figures->muzzy_decay_ms);
	number(report, "pactive", figures->pactive);
	number(report, "pdirty", figures->pdirty);
	number(report, "pmuzzy", figures->pmuzzy);
	number(report, "dirty_npurge", figures->dirty_npurge);
	number(report, "dirty_nmadvise", figures->dirty_nmadvise);
	number(report, "dirty_purged", figures->dirty_purged);
	number(report, "muzzy_npurge", figures->muzzy_npurge);
	number(report, "muzzy_nmadvise", figures->muzzy_nmadvise);
	number(report, "muzzy_purged", figures->muzzy_purged);
}

static void rows(struct report *report, const char *name, const char *row, unsigned count)
{
	key(report, name);
	report_add(report, "[");
	for (unsigned i = 0; i < count; i++)
		report_add(report, "%s%s", i > 0 ? "," : "", row);
	report_add(report, "]");
}

// What jemalloc tells of its unused extents by size, and of its allocator of huge pages, which are not here.
static void extents(struct report *report)
{
	rows(report, "extents", "{\"ndirty\":0,\"nmuzzy\":0,\"nretained\":0,\"dirty_bytes\":0,\"muzzy_bytes\":0,\"retained_bytes\":0}", EXTENT_SIZES);
}

static void huge_page_slabs(struct report *report, const char *name)
{
	open_object(report, name);
	number(report, "npageslabs_huge", 0);
	number(report, "nactive_huge", 0);
	number(report, "npageslabs_nonhuge", 0);
	number(report, "nactive_nonhuge", 0);
	number(report, "ndirty_nonhuge", 0);
	close_object(report);
}

static void huge_page_shard(struct report *report)
{
	number(report, "sec_bytes", 0);
	open_object(report, "hpa_shard");
	number(report, "npurge_passes", 0);
	number(report, "npurges", 0);
	number(report, "nhugifies", 0);
	number(report, "ndehugifies", 0);
	huge_page_slabs(report, "full_slabs");
	huge_page_slabs(report, "empty_slabs");
	rows(report, "nonfull_slabs",
	     "{\"npageslabs_huge\":0,\"nactive_huge\":0,\"ndirty_huge\":0,\"npageslabs_nonhuge\":0,\"nactive_nonhuge\":0,\"ndirty_nonhuge\":0}",
	     HUGE_PAGE_SLABS);
	close_object(report);
}

static void arena(struct report *report, unsigned id, const char *name, const struct arena_figures *figures)
{
	open_object(report, name);
	number(report, "nthreads", figures->nthreads);
	number(report, "uptime_ns", figures->uptime);
	string(report, "dss", control_dss(id));
	decay(report, figures);
	kind(report, "small", &figures->small);
	kind(report, "large", &figures->large);
	number(report, "mapped", figures->mapped);
	number(report, "retained", figures->retained);
	number(report, "base", figures->base);
	number(report, "internal", figures->internal);
	number(report, "metadata_thp", 0);
	number(report, "tcache_bytes", figures->tcache_bytes);
	number(report, "tcache_stashed_bytes", 0);
	number(report, "resident", figures->resident);
	number(report, "abandoned_vm", 0);
	number(report, "extent_avail", 0);
	if (report->mutexes)
		mutexes(report,
			"0large extent_avail 1extents_dirty extents_muzzy 2extents_retained decay_dirty decay_muzzy 3base 4tcache_list "
			"hpa_shard hpa_shard_grow hpa_sec",
			(const struct mutex_figures *const[]){ &figures->mutexes.large, &figures->mutexes.extents_dirty,
							       &figures->mutexes.extents_retained, &figures->mutexes.base,
							       &figures->mutexes.tcache_list });
	if (report->bins)
		bins(report, figures);
	if (report->large)
		lextents(report, figures);
	if (report->extents)
		extents(report);
	if (report->huge_pages)
		huge_page_shard(report);
	close_object(report);
}

void report_json(struct report *report)
{
	report_add(report, "{");
	open_object(report, "jemalloc");
	if (report->general) {
		string(report, "version", JEMALLOC_VERSION);
		controls_below(report, "config", "config.");
		controls_below(report, "opt", "opt.");
		profiler(report);
		classes(report);
	}
	totals(report);
	open_object(report, "stats.arenas");
	report_arenas(report, arena);
	close_object(report);
	close_object(report);
	report_add(report, "}\n");
}
