// What a new handler throws is caught where it is to be, by this program or in the library.
// SPDX-License-Identifier: BSD-2-Clause
#include <new>

static void refuse()
{
	throw std::bad_alloc();
}

int main()
{
	volatile auto too_much = ~0ul / 4;

	std::set_new_handler(refuse);
	if (::operator new(too_much, std::nothrow))
		return 1;
	try {
		::operator new(too_much);
	} catch (const std::bad_alloc &) {
		return 0;
	}
	return 2;
}
