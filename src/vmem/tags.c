// The stock of boundary tags of an arena: filled from base before an operation begins, trimmed after a free.
// SPDX-License-Identifier: BSD-2-Clause
#include "base/base.h"
#include "vmem/segment.h"

bool vmem_tags_populate(struct vmem *arena, unsigned tags)
{
	while (arena->spares < tags) {
		mutex_unlock(&arena->lock);
		struct vmem_segment *tag = base_alloc(sizeof *tag);
		mutex_lock(&arena->lock);
		if (tag == NULL) {
			arena->populate_fails++;
			mutex_unlock(&arena->lock);
			return false;
		}
		tag_return(arena, tag);
	}
	return true;
}

struct vmem_segment *vmem_tags_detach(struct vmem *arena)
{
	struct vmem_segment *excess = NULL;

	while (arena->spares > TAGS_STOCKED) {
		struct vmem_segment *tag = tag_take(arena);

		tag->list_next = excess;
		excess = tag;
	}
	return excess;
}

void vmem_tags_trim(struct vmem_segment *tags)
{
	while (tags != NULL) {
		struct vmem_segment *next = tags->list_next;

		base_free(tags, sizeof *tags);
		tags = next;
	}
}
