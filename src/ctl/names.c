// The tree of control names: made of the rows at first use, walked by names and by MIBs.
//
// Children of a node stand side by side, so that a MIB's component is a child's number. A node's only child may be an index.
// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "ctl/control.h"
#include "heap/size_class.h"
#include "os/mutex.h"
#include "util/assert.h"
#include "util/bits.h"

enum { NODES_MOST = 1024, PAGE_SIZES = 199, HUGE_PAGE_SIZES = 64, DIGITS_MOST = 9 };

struct node {
	const char *name; // not zero-terminated
	uint16_t first_child, children;
	int16_t row;	// −1: not the end of a name
	uint16_t limit; // of an index: any number below, or OF_ARENAS; 0: a word
	uint8_t length;
};

enum { OF_ARENAS = UINT16_MAX };

static struct node nodes[NODES_MOST];
static unsigned nodes_used;
static _Atomic bool built;
static struct mutex lock = MUTEX_INIT(RANK_CONTROLS);

struct mutex *names_mutex(void)
{
	return &lock;
}

static size_t component_length(const char *name)
{
	size_t length = 0;

	while (name[length] != '\0' && name[length] != '.')
		length++;
	return length;
}

static bool same_component(const char *a, const char *b)
{
	size_t length = component_length(a);

	return length == component_length(b) && memcmp(a, b, length) == 0;
}

static bool is(const struct node *node, const char *name)
{
	return strlen(name) == node->length && memcmp(node->name, name, node->length) == 0;
}

// Which numbers may stand behind this node.
static uint16_t limit_behind(const struct node *parent)
{
	if (is(parent, "arena") || is(parent, "arenas"))
		return OF_ARENAS;
	if (is(parent, "bin") || is(parent, "bins"))
		return SLAB_CLASSES - 1;
	if (is(parent, "extents"))
		return PAGE_SIZES;
	if (is(parent, "nonfull_slabs"))
		return HUGE_PAGE_SIZES;
	return LARGE_CLASSES;
}

static void add_node(const char *name, const struct node *parent)
{
	struct node *node = &nodes[nodes_used];

	ALWAYS(nodes_used < NODES_MOST);
	*node = (struct node){ .name = name, .length = (uint8_t)component_length(name), .row = -1 };
	node->limit = name[0] == '<' ? limit_behind(parent) : 0;
	nodes_used++;
}

// Gives a node its children: the components at `offset` of rows first … end − 1, which begin alike.
static void add_children(unsigned parent, size_t first, size_t end, size_t offset)
{
	nodes[parent].first_child = (uint16_t)nodes_used;
	for (size_t row = first; row < end; row++)
		if (row == first || !same_component(control_rows[row - 1].name + offset, control_rows[row].name + offset)) {
			add_node(control_rows[row].name + offset, &nodes[parent]);
			nodes[parent].children++;
		}
	for (unsigned child = 0; child < nodes[parent].children; child++) {
		struct node *node = &nodes[nodes[parent].first_child + child];
		size_t start = first;

		while (first < end && same_component(control_rows[start].name + offset, control_rows[first].name + offset))
			first++;
		if (node->name[node->length] == '\0')
			node->row = (int16_t)start;
		else
			add_children((unsigned)(node - nodes), start, first, offset + node->length + 1);
	}
}

static void build(void)
{
	mutex_lock(&lock);
	if (!atomic_load_explicit(&built, memory_order_relaxed)) {
		add_node("", NULL);
		add_children(0, 0, control_count, 0);
		atomic_store_explicit(&built, true, memory_order_release);
	}
	mutex_unlock(&lock);
}

static const struct node *root(void)
{
	if (!atomic_load_explicit(&built, memory_order_acquire))
		build();
	return &nodes[0];
}

static bool index_allowed(const struct node *node, size_t index)
{
	if (LIKELY(node->limit != OF_ARENAS))
		return index < node->limit;
	return index <= control_arenas() || index == CONTROL_ALL || index == CONTROL_DESTROYED;
}

static bool component_number(const char *name, size_t length, size_t *number)
{
	*number = 0;
	for (size_t i = 0; i < length; i++) {
		if (name[i] < '0' || name[i] > '9')
			return false;
		*number = *number * 10 + (size_t)(name[i] - '0');
	}
	return length > 0 && length <= DIGITS_MOST;
}

static const struct node *child_named(const struct node *node, const char *name, size_t length, size_t *component)
{
	const struct node *child = &nodes[node->first_child];

	if (node->children > 0 && child->limit != 0)
		return component_number(name, length, component) && index_allowed(child, *component) ? child : NULL;
	for (*component = 0; *component < node->children; ++*component, child++)
		if (child->length == length && child->name[0] == name[0] && memcmp(child->name, name, length) == 0)
			return child;
	return NULL;
}

int control_find_name(const char *name, const struct control **row, unsigned index[CONTROL_INDICES])
{
	const struct node *node = root();
	size_t length, component, indices = 0;

	for (;; name += length + 1) {
		length = component_length(name);
		node = child_named(node, name, length, &component);
		if (node == NULL)
			return ENOENT;
		if (node->limit != 0)
			index[indices++] = (unsigned)component;
		if (name[length] == '\0')
			break;
	}
	if (node->row < 0)
		return ENOENT;
	*row = &control_rows[node->row];
	return 0;
}

// A node without children leads to the root, which is a word, and no number is below its none.
int control_find_mib(const size_t *mib, size_t length, const struct control **row, unsigned index[CONTROL_INDICES])
{
	const struct node *node = root();

	for (size_t i = 0; i < length; i++) {
		const struct node *child = &nodes[node->first_child];

		if (child->limit == 0) {
			if (mib[i] >= node->children)
				return ENOENT;
			node = child + mib[i];
		} else {
			if (!index_allowed(child, mib[i]))
				return ENOENT;
			*index++ = (unsigned)mib[i];
			node = child;
		}
	}
	if (node->row < 0)
		return ENOENT;
	*row = &control_rows[node->row];
	return 0;
}

int control_mib(const char *name, size_t *mib, size_t *length)
{
	const struct node *node = root();
	size_t room = *length, used = 0, component;

	while (used < room) {
		size_t characters = component_length(name);

		node = child_named(node, name, characters, &component);
		if (node == NULL)
			return ENOENT;
		mib[used++] = component;
		name += characters;
		if (*name == '\0')
			break;
		name++;
	}
	*length = used;
	return 0;
}

void controls_fork_prepare(void)
{
	mutex_fork_lock(&lock);
}

void controls_fork_done(void)
{
	mutex_fork_unlock(&lock);
}
