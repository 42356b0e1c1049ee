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

enum { NODES_MOST = 1024, PAGE_SIZES = 199, HUGE_PAGE_SIZES = 64, DIGITS_MOST = 9 };

struct node {
	const char *name; // not zero-terminated
	uint16_t first_child, children;
	int16_t row; // −1: not the end of a name
	uint8_t length;
	bool index; // any number below the limit of the parent
};

static struct node nodes[NODES_MOST];
static unsigned nodes_used;
static _Atomic bool built;
static struct mutex lock = MUTEX_INIT(RANK_CONTROLS);

static size_t component_length(const char *name)
{
	return strcspn(name, ".");
}

static bool same_component(const char *a, const char *b)
{
	size_t length = component_length(a);

	return length == component_length(b) && memcmp(a, b, length) == 0;
}

static uint16_t add_node(const char *name)
{
	struct node *node = &nodes[nodes_used];

	ALWAYS(nodes_used < NODES_MOST);
	*node = (struct node){ .name = name, .length = (uint8_t)component_length(name), .row = -1 };
	node->index = name[0] == '<';
	return (uint16_t)nodes_used++;
}

// Gives a node its children: the components at `offset` of rows first … end − 1, which begin alike.
static void add_children(unsigned parent, size_t first, size_t end, size_t offset)
{
	nodes[parent].first_child = (uint16_t)nodes_used;
	for (size_t row = first; row < end; row++)
		if (row == first || !same_component(control_rows[row - 1].name + offset, control_rows[row].name + offset)) {
			add_node(control_rows[row].name + offset);
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
		add_node("");
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

static bool is(const struct node *node, const char *name)
{
	return strlen(name) == node->length && memcmp(node->name, name, node->length) == 0;
}

// Whether a number may stand behind this node.
static bool index_allowed(const struct node *parent, size_t index)
{
	if (is(parent, "arena") || is(parent, "arenas"))
		return index <= control_arenas() || index == CONTROL_ALL || index == CONTROL_DESTROYED;
	if (is(parent, "bin") || is(parent, "bins"))
		return index < SLAB_CLASSES - 1;
	if (is(parent, "extents"))
		return index < PAGE_SIZES;
	if (is(parent, "nonfull_slabs"))
		return index < HUGE_PAGE_SIZES;
	return index < LARGE_CLASSES;
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

	if (node->children > 0 && child->index)
		return component_number(name, length, component) && index_allowed(node, *component) ? child : NULL;
	for (*component = 0; *component < node->children; ++*component, child++)
		if (child->length == length && memcmp(child->name, name, length) == 0)
			return child;
	return NULL;
}

static const struct node *child_numbered(const struct node *node, size_t component)
{
	const struct node *child = &nodes[node->first_child];

	if (node->children > 0 && child->index)
		return index_allowed(node, component) ? child : NULL;
	return component < node->children ? child + component : NULL;
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
		if (node->index)
			index[indices++] = (unsigned)component;
		if (name[length] == '\0')
			break;
	}
	if (node->row < 0)
		return ENOENT;
	*row = &control_rows[node->row];
	return 0;
}

int control_find_mib(const size_t *mib, size_t length, const struct control **row, unsigned index[CONTROL_INDICES])
{
	const struct node *node = root();
	size_t indices = 0;

	for (size_t i = 0; i < length; i++) {
		node = child_numbered(node, mib[i]);
		if (node == NULL)
			return ENOENT;
		if (node->index)
			index[indices++] = (unsigned)mib[i];
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
