// Slabs: choosing their shape.
// SPDX-License-Identifier: BSD-2-Clause
#include "slab/slab.h"

#include "os/pages.h"
#include "pages/page_map.h"

// A boundary tag of vmem and a slab header are each one object of base: multiples of a cache line.
enum { TAG_BYTES = 64, LEAST_BUFFERS = 4, LEAST_SLAB = 16 * 1024 };
enum { MOST_SLAB = 192 * 1024 }; // three pages of 64 KiB: of two, objects of 10 and 12 KiB leave a 16th. Of smaller pages no size comes to more than 32 (struct run, given)
enum { NOTED_MOST = 1024 }; // buffers, so that a header is one object of base where pages are large

size_t slab_header_bytes(const struct slab_shape *shape, unsigned lg_times)
{
	size_t notes = shape->noted ? shape->buffers * sizeof(uint32_t) : 0;

	return sizeof(struct slab) + round_up((size_t)shape->buffers << lg_times, 64) / 8 + notes;
}

size_t slab_metadata_bytes(const struct slab_shape *shape)
{
	size_t granules = shape->slab_bytes >> LG_GRANULE;

	return round_up(slab_header_bytes(shape, 0), CACHE_LINE) + TAG_BYTES +
	       granules * (sizeof(uint16_t) + sizeof(struct run *));
}

static struct slab_shape shape_of(size_t size, size_t slab_bytes)
{
	return (struct slab_shape){
		.size = size,
		.slab_bytes = slab_bytes,
		.buffers = (uint32_t)(slab_bytes / size),
		.reciprocal = (uint32_t)((((uint64_t)1 << 32) + size - 1) / size),
	};
}

static bool shape_is_good(const struct slab_shape *shape)
{
	size_t waste = shape->slab_bytes - (size_t)shape->buffers * shape->size;

	return shape->buffers >= LEAST_BUFFERS && waste <= shape->slab_bytes / 64 &&
	       slab_metadata_bytes(shape) * 50 < shape->slab_bytes;
}

struct slab_shape slab_shape_for(size_t size)
{
	size_t page = os_page_size();
	struct slab_shape shape = shape_of(size, round_up(LEAST_SLAB, page));

	for (size_t bytes = shape.slab_bytes; bytes <= MOST_SLAB; bytes += page) {
		shape = shape_of(size, bytes);
		if (shape_is_good(&shape))
			break;
	}
	return shape;
}

struct slab_shape slab_shape_noted(size_t size)
{
	struct slab_shape shape = shape_of(size, round_up(size, os_page_size()));

	shape.buffers = (uint32_t)min_size(shape.buffers, NOTED_MOST);
	shape.noted = true;
	return shape;
}
