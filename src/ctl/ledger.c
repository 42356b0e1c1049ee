// The ledger: one walk over the process's areas; in the heap's, over every granule of resident memory.
//
// An area's rows are counted apart for pages that only we map and for those that others map too, because the latter may be
// the kernel's page of zeroes, which is not resident. What the kernel says of the area settles it: the rows are brought to
// that sum, so the whole always sums, also when another thread changed something between two looks.
// SPDX-License-Identifier: BSD-2-Clause
#include "ctl/ledger.h"

#include <errno.h>
#include <string.h>

#include "heap/arena.h"
#include "heap/samples.h"
#include "heap/front.h"
#include "heap/fronts.h"
#include "magazine/magazine.h"
#include "os/areas.h"
#include "os/cgroup.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "util/bits.h"
#include "util/format.h"

enum row {
#define ROW(name, meaning) ROW_##name,
#include "ctl/ledger.def"
	ROWS
};

enum { BATCH_PAGES = 512, PAGE_STATES = 3 };

struct walk {
	int residency;
	size_t rows[ROWS];
	size_t of_class[CLASSES]; // bytes of `live`, by class; 0: large
	size_t large_tails;       // of those that are not kept in magazines, the last granules
	size_t area[PAGE_STATES][ROWS]; // of the area at hand, by the state of the page
	uintptr_t large_end;      // of the large run that the walk is in
	unsigned large_class;
	size_t proportional, swapped, heap_pss;
};

static void count(struct walk *walk, enum os_page_state state, enum row row, size_t bytes)
{
	walk->area[state][row] += bytes;
}

// Bytes of free buffers of a slab within [from, to), offsets from its start; under the bin's lock.
static size_t free_bytes(const struct slab *slab, const struct slab_shape *shape, size_t from, size_t to)
{
	size_t sum = 0, first = from / shape->size;

	for (size_t i = first; i < slab_buffers(slab, shape) && i * shape->size < to; i++)
		if (slab->bitmap[i / 64] >> i % 64 & 1)
			sum += min_size((i + 1) * shape->size, to) - max_size(i * shape->size, from);
	return sum;
}

// A granule of a slab: live, free, the rest behind the last buffer, and what a sample's buffer has beside the object.
static void count_slab(struct walk *walk, enum os_page_state state, uintptr_t at, unsigned word, struct bin *bin)
{
	unsigned class = word_class(word);
	size_t used, holes = 0, ends = 0, from = 0;

	mutex_lock(&bin->lock);
	struct slab *slab = (struct slab *)(void *)page_map_run((void *)at);

	// A slab that is being made or destroyed is passed over: its granule counts as live.
	if (slab != NULL && slab->run.bin == bin && at - run_start(&slab->run) < slab_bytes(slab, &bin->shape)) {
		used = slab_buffers(slab, &bin->shape) * bin->shape.size;
		from = at - run_start(&slab->run);
		ends = from + GRANULE_BYTES - min_size(max_size(from, used), from + GRANULE_BYTES);
		holes = free_bytes(slab, &bin->shape, from, from + GRANULE_BYTES);
	}
	mutex_unlock(&bin->lock);
	size_t taken = GRANULE_BYTES - holes - ends, live = class != 0 ? taken : taken * samples_bytes(bin) / bin->shape.size;

	count(walk, state, ROW_holes, holes);
	count(walk, state, ROW_slab_ends, ends);
	count(walk, state, ROW_rounding, taken - live);
	count(walk, state, ROW_live, live);
	walk->of_class[class] += live;
}

static void enter_large(struct walk *walk, uintptr_t at, const struct run *run, unsigned class)
{
	walk->large_end = run_start(run) == at ? at + round_up(run->bytes, os_page_size()) : 0;
	walk->large_class = class;
}

// NULL: no slab of malloc's is there.
static struct bin *bin_of_granule(const struct run *run, unsigned word)
{
	unsigned class = word_class(word);

	return class == 0 ? samples_bin(run) : class < SLAB_CLASSES ? &arena_of_word(word)->bins[class] : NULL;
}

static void count_granule(struct walk *walk, enum os_page_state state, uintptr_t at)
{
	unsigned word = page_map_word((void *)at), class = word_class(word);
	const struct run *run = page_map_run((void *)at);

	struct bin *bin = word == 0 ? NULL : bin_of_granule(run, word);

	if (bin != NULL) {
		if (state != PAGE_ABSENT)
			count_slab(walk, state, at, word, bin);
		return;
	}
	if (word != 0 && run != NULL)
		enter_large(walk, at, run, class);
	if (state == PAGE_ABSENT)
		return;
	if (at < walk->large_end) {
		count(walk, state, ROW_live, GRANULE_BYTES);
		walk->of_class[walk->large_class] += GRANULE_BYTES;
		walk->large_tails += walk->large_class == 0 && at + GRANULE_BYTES >= walk->large_end;
	} else
		count(walk, state, run == NULL ? ROW_dirty : magazines_own(run->bin) ? ROW_magazines : ROW_caches, GRANULE_BYTES);
}

static bool walk_heap(struct walk *walk, const struct os_area *area)
{
	uint8_t states[BATCH_PAGES];
	size_t page = os_page_size();

	for (uintptr_t at = area->start; at < area->end; at += BATCH_PAGES * page) {
		size_t pages = min_size((area->end - at) / page, BATCH_PAGES);

		if (!os_residency_read(walk->residency, at, states, pages))
			return false;
		for (size_t i = 0; i < pages * page / GRANULE_BYTES; i++)
			count_granule(walk, states[i * GRANULE_BYTES / page], at + i * GRANULE_BYTES);
	}
	return true;
}

// Resident bytes of [start, end) under a row.
static bool walk_plain(struct walk *walk, uintptr_t start, uintptr_t end, enum row row)
{
	uint8_t states[BATCH_PAGES];
	size_t page = os_page_size();

	for (uintptr_t at = start; at < end; at += BATCH_PAGES * page) {
		size_t pages = min_size((end - at) / page, BATCH_PAGES);

		if (!os_residency_read(walk->residency, at, states, pages))
			return false;
		for (size_t i = 0; i < pages; i++)
			count(walk, states[i], row, states[i] != PAGE_ABSENT ? page : 0);
	}
	return true;
}

static bool walk_part(struct walk *walk, const struct os_area *area, uintptr_t start, uintptr_t end, enum row row)
{
	start = max_size(start, area->start);
	end = min_size(end, area->end);
	return start >= end || walk_plain(walk, start, end, row);
}

// Our own mappings within an area, which the kernel may have joined with the program's.
static bool walk_metadata(struct walk *walk, const struct os_area *area)
{
	uintptr_t map = (uintptr_t)page_map;

	for (unsigned i = 0; i < atomic_load(&os_mappings_count); i++) {
		uintptr_t start = atomic_load(&os_mappings[i].start);

		if (!walk_part(walk, area, start, start + atomic_load(&os_mappings[i].size), ROW_base))
			return false;
	}
	return map == 0 || walk_part(walk, area, map, map + page_map_end * sizeof *page_map, ROW_page_map);
}

// Takes `part` of `whole` out of `rows`, each in proportion; the last non-empty one takes what rounding left.
static void add_scaled(size_t *to, const size_t *rows, size_t part, size_t whole)
{
	size_t left = part, last = ROWS;

	for (size_t row = 0; row < ROWS; row++) {
		size_t share = whole == 0 ? 0 : (size_t)((unsigned __int128)rows[row] * part / whole);

		to[row] += share;
		left -= share;
		if (rows[row] > 0)
			last = row;
	}
	if (last < ROWS)
		to[last] += left;
}

static size_t sum_of(const size_t *rows)
{
	size_t sum = 0;

	for (size_t row = 0; row < ROWS; row++)
		sum += rows[row];
	return sum;
}

// Brings the area's rows to what the kernel says is resident in it; what is left over has the row `rest`.
static void settle(struct walk *walk, size_t resident, enum row rest)
{
	size_t ours = sum_of(walk->area[PAGE_OURS]), common = sum_of(walk->area[PAGE_COMMON]);
	size_t of_ours = min_size(ours, resident), of_common = min_size(common, resident - of_ours);

	add_scaled(walk->rows, walk->area[PAGE_OURS], of_ours, ours);
	add_scaled(walk->rows, walk->area[PAGE_COMMON], of_common, common);
	walk->rows[rest] += resident - of_ours - of_common;
	memset(walk->area, 0, sizeof walk->area);
}

static bool is_heap(const struct os_area *area)
{
	return page_map != NULL && area->start >= page_map_first_chunk() && area->end <= page_map_first_chunk() + page_map_chunk_bytes();
}

// The kernel puts threads' stacks together where their guards are no areas, and nothing else: then the first page is one.
static enum row row_of(const struct walk *walk, const struct os_area *area)
{
	static const enum row row_of_kind[] = {
		[AREA_PROGRAM] = ROW_programs, [AREA_FILE] = ROW_files, [AREA_SHARED] = ROW_shared, [AREA_STACK] = ROW_stacks,
		[AREA_BRK] = ROW_brk, [AREA_ANONYMOUS] = ROW_anonymous, [AREA_KERNEL] = ROW_kernel,
	};
	bool is_stack = area->kind == AREA_ANONYMOUS && os_residency_is_guard(walk->residency, area->start);

	return is_stack ? ROW_stacks : row_of_kind[area->kind];
}

static bool walk_area(struct walk *walk, const struct os_area *area)
{
	bool heap = is_heap(area);

	walk->proportional += area->proportional;
	walk->swapped += area->swapped;
	walk->heap_pss += heap ? area->proportional : 0;
	if (area->resident == 0 && !heap)
		return true;
	if (heap ? !walk_heap(walk, area) : !walk_metadata(walk, area))
		return false;
	settle(walk, area->resident, heap ? ROW_dirty : row_of(walk, area));
	return true;
}

static void move(struct walk *walk, enum row from, enum row to, size_t bytes)
{
	bytes = min_size(bytes, walk->rows[from]);
	walk->rows[from] -= bytes;
	walk->rows[to] += bytes;
}

// Free objects that fronts and depots hold, class by class: to the slabs they are in use.
static void take_cached(struct walk *walk)
{
	size_t rounds[CLASSES];

	fronts_and_depots_count(rounds);
	for (unsigned class = 1; class < CLASSES; class++) {
		size_t bytes = min_size(rounds[class] * class_size(class), walk->of_class[class]);

		walk->of_class[class] -= bytes;
		move(walk, ROW_live, ROW_cached, bytes);
	}
}

// Nobody notes the sizes asked for: half a step between classes for each object, half a page for those of whole pages whose
// last one is there.
static void take_rounding(struct walk *walk)
{
	size_t bytes = walk->large_tails * (os_page_size() / 2);

	for (unsigned class = 2; class < CLASSES; class++) {
		size_t step = class_size(class) - class_size(class - 1);

		bytes += walk->of_class[class] / class_size(class) * (step / 2);
	}
	move(walk, ROW_live, ROW_rounding, bytes);
}

static void hand_over(const struct walk *walk, struct vmag_ledger *ledger)
{
	memset(ledger, 0, sizeof *ledger);
	ledger->resident = sum_of(walk->rows);
#define ROW(name, meaning) ledger->name = walk->rows[ROW_##name];
#include "ctl/ledger.def"
	ledger->proportional = walk->proportional;
	ledger->swapped = walk->swapped;
	ledger->heap_pss = walk->heap_pss;
	os_cgroup_memory(&ledger->cgroup_current, &ledger->cgroup_limit);
}

bool ledger_take(struct vmag_ledger *ledger)
{
	struct walk walk = { .residency = os_residency_open() };
	struct os_areas areas;
	struct os_area area;
	bool told = walk.residency >= 0 && os_areas_begin(&areas);

	if (told) {
		while (told && os_areas_next(&areas, &area))
			told = walk_area(&walk, &area);
		os_areas_end(&areas);
	}
	if (walk.residency >= 0)
		os_residency_close(walk.residency);
	if (!told)
		return false;
	take_cached(&walk);
	take_rounding(&walk);
	hand_over(&walk, ledger);
	return true;
}

void ledger_json(struct text *text, const struct vmag_ledger *ledger)
{
	text_add(text, "\"resident_bytes\":%zu,\"rows\":{", ledger->resident);
	const char *comma = "";
#define ROW(name, meaning)                                                \
	text_add(text, "%s\"" #name "_bytes\":%zu", comma, ledger->name); \
	comma = ",";
#include "ctl/ledger.def"
	text_add(text, "},\"proportional_bytes\":%zu,\"heap_proportional_bytes\":%zu,\"swapped_bytes\":%zu,", ledger->proportional,
		 ledger->heap_pss, ledger->swapped);
	text_add(text, "\"cgroup_bytes\":%zu,\"cgroup_limit_bytes\":%zu", ledger->cgroup_current, ledger->cgroup_limit);
}

static void line(struct text *text, const char *meaning, size_t bytes, size_t whole)
{
	size_t tenths = whole == 0 ? 0 : bytes * 1000 / whole;

	text_add(text, "  %-42s %14zu %4zu.%zu %%\n", meaning, bytes, tenths / 10, tenths % 10);
}

void ledger_lines(struct text *text, const struct vmag_ledger *ledger)
{
	text_add(text, "vmag: resident memory, in bytes\n");
#define ROW(name, meaning) \
	if (ledger->name > 0) \
		line(text, meaning, ledger->name, ledger->resident);
#include "ctl/ledger.def"
	line(text, "resident", ledger->resident, ledger->resident);
	text_add(text, "  proportional %zu, swapped %zu", ledger->proportional, ledger->swapped);
	if (ledger->cgroup_current > 0)
		text_add(text, "; cgroup %zu", ledger->cgroup_current);
	if (ledger->cgroup_limit > 0)
		text_add(text, " of %zu", ledger->cgroup_limit);
	text_add(text, "\n");
}
