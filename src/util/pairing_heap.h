// Pairing heap: an intrusive priority queue ordered by address; the lowest is found at once, any member can leave.
//
//   root ──► node (lowest)
//             │ child
//             ▼
//            node ──next──► node ──next──► node        `back` leads to the left sibling, or to the parent
//
// Insertion is constant; removal is logarithmic in the amortised sense. A pairing heap needs no colours or ranks and
// three words a node (Fredman, Sedgewick, Sleator, Tarjan 1986).
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

#include <stddef.h>
#include <stdint.h>

struct heap_node {
	struct heap_node *child;
	struct heap_node *next;
	struct heap_node *back;
	uintptr_t key; // order: lowest first; constant while in a heap
};

static inline struct heap_node *heap_meld(struct heap_node *a, struct heap_node *b)
{
	if (a == NULL || b == NULL)
		return a == NULL ? b : a;
	if (b->key < a->key) {
		struct heap_node *swap = a;
		a = b;
		b = swap;
	}
	b->next = a->child;
	b->back = a;
	if (a->child != NULL)
		a->child->back = b;
	a->child = b;
	return a;
}

static inline void heap_insert(struct heap_node **root, struct heap_node *node)
{
	node->child = node->next = node->back = NULL;
	*root = heap_meld(*root, node);
}

// Melds a list of siblings pairwise from the left, then the pairs from the right.
static inline struct heap_node *heap_meld_siblings(struct heap_node *first)
{
	struct heap_node *pairs = NULL;

	while (first != NULL) {
		struct heap_node *a = first, *b = a->next;

		first = b == NULL ? NULL : b->next;
		a->next = a->back = NULL;
		if (b != NULL)
			b->next = b->back = NULL;
		a = heap_meld(a, b);
		a->next = pairs;
		pairs = a;
	}
	struct heap_node *root = NULL;
	while (pairs != NULL) {
		struct heap_node *next = pairs->next;

		pairs->next = NULL;
		root = heap_meld(root, pairs);
		pairs = next;
	}
	return root;
}

static inline void heap_remove(struct heap_node **root, struct heap_node *node)
{
	struct heap_node *rest = heap_meld_siblings(node->child);

	if (*root == node) {
		*root = rest;
		return;
	}
	if (node->back->child == node)
		node->back->child = node->next;
	else
		node->back->next = node->next;
	if (node->next != NULL)
		node->next->back = node->back;
	*root = heap_meld(*root, rest);
}
