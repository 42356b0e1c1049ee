// Door: opening and closing, and what happens at each operation while it is closed.
// SPDX-License-Identifier: BSD-2-Clause
#include "heap/door.h"

void door_change(struct front *front)
{
	uint8_t before = front->words->door, wanted = atomic_load_explicit(&front->door_wanted, memory_order_relaxed);

	front->words->door = wanted;
	if (before == 0 && wanted != 0)
		front_close_words(front);
	else if (before != 0 && wanted == 0)
		front_open_words(front);
}

void door_close(enum door why)
{
	struct front *front = front_get();

	if (front == NULL)
		return;
	atomic_fetch_or_explicit(&front->door_wanted, (uint8_t)why, memory_order_relaxed);
	door_obey(front);
}

void door_open(enum door why)
{
	struct front *front = words.front;

	if (front == NULL || (fronts_door() & why) != 0)
		return;
	atomic_fetch_and_explicit(&front->door_wanted, (uint8_t)~why, memory_order_relaxed);
	door_obey(front);
}

void doors_close(enum door why)
{
	fronts_close_words((uint8_t)why, 0);
}

void doors_open(enum door why)
{
	fronts_close_words(0, (uint8_t)why);
}

void door_allocated(struct front *front, void *object, size_t size)
{
	(void)object;
	if (front->words->door & DOOR_COUNT)
		front->allocated += size;
}

void door_freeing(struct front *front, void *object, size_t size)
{
	(void)object;
	if (front->words->door & DOOR_COUNT)
		front->freed += size;
}

void door_resized(struct front *front, void *object, size_t old_size, size_t size)
{
	door_freeing(front, object, old_size);
	door_allocated(front, object, size);
}
