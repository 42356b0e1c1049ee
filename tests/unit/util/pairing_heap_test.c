// Tests util/pairing_heap.h: random inserts and removals of any member against a set that is searched one by one.
// SPDX-License-Identifier: BSD-2-Clause
#include "util/pairing_heap.h"

#include "unit.h"

enum { NODES = 200, ROUNDS = 60000 };

static struct heap_node nodes[NODES];
static bool member[NODES];

// Order, links and number of members below (and beside) a node.
static size_t check_siblings(const struct heap_node *first, const struct heap_node *parent) {
    const struct heap_node *back = parent;
    size_t count = 0;

    for (const struct heap_node *node = first; node != NULL; back = node, node = node->next) {
        CHECK(node->back == back);
        CHECK(parent == NULL || parent->key <= node->key);
        CHECK(member[node - nodes]);
        count += 1 + check_siblings(node->child, node);
    }
    return count;
}

static void check_all(const struct heap_node *root, size_t members) {
    const struct heap_node *lowest = NULL;

    for (size_t i = 0; i < NODES; i++)
        if (member[i] && (lowest == NULL || nodes[i].key < lowest->key))
            lowest = &nodes[i];
    CHECK(root == lowest);
    CHECK(root == NULL || root->next == NULL);
    CHECK_EQ(check_siblings(root, NULL), members);
}

// A permutation of the keys, so that address order and key order differ.
static void keys_shuffle(struct random *random) {
    for (size_t i = 0; i < NODES; i++)
        nodes[i].key = i + 1;
    for (size_t i = NODES - 1; i > 0; i--) {
        size_t other = random_below(random, i + 1);
        uintptr_t key = nodes[i].key;

        nodes[i].key = nodes[other].key;
        nodes[other].key = key;
    }
}

static void drain_in_order(struct heap_node **root) {
    uintptr_t last = 0;

    while (*root != NULL) {
        struct heap_node *lowest = *root;

        CHECK(lowest->key > last);
        last = lowest->key;
        member[lowest - nodes] = false;
        heap_remove(root, lowest);
    }
}

int main(void) {
    struct random random = { 99 };
    struct heap_node *root = NULL;
    size_t members = 0;

    keys_shuffle(&random);
    for (int round = 0; round < ROUNDS; round++) {
        size_t i = random_below(&random, NODES);

        if (round % 4 == 3 && root != NULL)
            i = (size_t)(root - nodes); // the lowest leaves most often
        if (member[i])
            heap_remove(&root, &nodes[i]);
        else
            heap_insert(&root, &nodes[i]);
        member[i] = !member[i];
        members += member[i] ? 1 : (size_t)-1;
        check_all(root, members);
    }
    drain_in_order(&root);
    for (size_t i = 0; i < NODES; i++)
        CHECK(!member[i]);
    return 0;
}
