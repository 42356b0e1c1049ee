// What jemalloc's own tests take from its header of this name: the packet of experimental.arenas_create_ext.
// SPDX-License-Identifier: BSD-2-Clause
#pragma once

typedef struct {
	extent_hooks_t *extent_hooks;
	bool metadata_use_hooks;
} arena_config_t;
