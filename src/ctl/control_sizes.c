// Controls of sizes: those of arenas.*, of bins and of large classes; all constant.
// SPDX-License-Identifier: BSD-2-Clause
#include "conf/options.h"
#include "ctl/control.h"
#include "ctl/snapshot.h"
#include "os/pages.h"
#include "pages/page_map.h"
#include "slab/slab.h"
#include "util/bits.h"

enum { QUANTUM = 16 };

int read_hugepage(struct control_call *call)
{
	call->value.size = CHUNK_BYTES;
	return 0;
}

int read_quantum(struct control_call *call)
{
	call->value.size = QUANTUM;
	return 0;
}

int read_page(struct control_call *call)
{
	call->value.size = os_page_size();
	return 0;
}

static size_t largest_kept(void)
{
	return min_size(class_round(options.tcache_max), MAGAZINE_MOST);
}

int read_tcache_max(struct control_call *call)
{
	call->value.size = largest_kept();
	return 0;
}

int read_nbins(struct control_call *call)
{
	call->value.number = BINS;
	return 0;
}

int read_nhbins(struct control_call *call)
{
	call->value.number = size_class(largest_kept());
	return 0;
}

static struct slab_shape bin_shape(const struct control_call *call)
{
	return slab_shape_for(class_size(call->index[0] + 1));
}

int read_bin_size(struct control_call *call)
{
	call->value.size = class_size(call->index[0] + 1);
	return 0;
}

int read_bin_nregs(struct control_call *call)
{
	call->value.number = bin_shape(call).buffers;
	return 0;
}

int read_bin_slab_size(struct control_call *call)
{
	call->value.size = bin_shape(call).slab_bytes;
	return 0;
}

int read_bin_nshards(struct control_call *call)
{
	call->value.number = 1;
	return 0;
}

int read_nlextents(struct control_call *call)
{
	call->value.number = LARGE_CLASSES;
	return 0;
}

int read_lextent_size(struct control_call *call)
{
	call->value.size = class_size(call->index[0] + SLAB_CLASSES);
	return 0;
}
