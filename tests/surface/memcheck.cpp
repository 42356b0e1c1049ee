// What memcheck.py wants told: a read behind an object of new, one of new[] that delete is given, and two that are lost, of malloc and of new.
// SPDX-License-Identifier: BSD-2-Clause
#include <cstdlib>

int main()
{
	std::free(reallocarray(std::malloc(10), 10, 10)); // nothing wrong
	static volatile char sum;
	char *volatile object = new char[40];
	void *volatile lost = std::malloc(100);

	sum = object[40];
	::operator delete(object);
	lost = ::operator new(200);
	*static_cast<char *>(lost) = sum;
	lost = nullptr;
}
