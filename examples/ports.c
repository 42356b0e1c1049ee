// Ports: who leases which port of a machine, as a relay of calls or a large NAT does it. Commands come on stdin:
//
//   one NAME      a port; freed ones come last, so that a stranger's late packets find nobody (next fit)
//   pair NAME     an even port and the odd one behind it, as RTP and RTCP want them (alignment)
//   block NAME    64 ports at a multiple of 64, for a subscriber behind the NAT
//   low NAME      a port below 40000, all that this one's firewall lets through (a limit)
//   close NAME    gives back what NAME has
//   list          all leases, in the order of their ports, and how much is free
//
// The range has a gap: ports 49000 to 49099 are another program's. Nothing here depends on how many leases there are: the
// arena allocates and frees in constant time, and finds the length of a lease's range again by itself in `list`.
//
//   cc ports.c -lvmag && printf 'one alice\npair bob\nlist\n' | ./a.out
// SPDX-License-Identifier: BSD-2-Clause
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vmag/vmem.h>

enum { FIRST = 32768, GAP = 49000, GAP_END = 49100, END = 61000, NAME_BYTES = 32 };

// By port: the name of who leases the range that begins there.
static char leases[END][NAME_BYTES];
static vmag_vmem_t *ports;

static unsigned port_of(void *address)
{
	return (unsigned)(uintptr_t)address;
}

static void *address_of(unsigned port)
{
	return (void *)(uintptr_t)port;
}

// ---- Leasing: the same call with other constraints.

struct kind {
	const char *command;
	size_t size, align;
	unsigned limit; // 0: none
};

static const struct kind kinds[] = { { "one", 1, 0, 0 }, { "pair", 2, 2, 0 }, { "block", 64, 64, 0 }, { "low", 1, 0, 40000 } };

static void lease(const struct kind *kind, const char *name)
{
	void *address = vmag_vmem_xalloc(ports, kind->size, kind->align, 0, 0, NULL, address_of(kind->limit),
					 VMAG_VM_NOSLEEP | VMAG_VM_NEXTFIT);

	if (address == NULL) {
		printf("%s: no %s left\n", name, kind->command);
		return;
	}
	snprintf(leases[port_of(address)], NAME_BYTES, "%s", name);
	if (kind->size == 1)
		printf("%s: %u\n", name, port_of(address));
	else
		printf("%s: %u-%u\n", name, port_of(address), port_of(address) + (unsigned)kind->size - 1);
}

// ---- Looking: the arena knows what is allocated.

static void show(void *argument, void *address, size_t size)
{
	(void)argument;
	printf("  %u-%zu %s\n", port_of(address), port_of(address) + size - 1, leases[port_of(address)]);
}

static void list(void)
{
	vmag_vmem_walk(ports, VMAG_VMEM_ALLOC, show, NULL);
	printf("  %zu of %zu ports are free\n", vmag_vmem_size(ports, VMAG_VMEM_FREE), vmag_vmem_size(ports, VMAG_VMEM_SPAN));
}

// ---- Closing: while the walk goes over the ranges, some of them are freed.

static void close_if_named(void *name, void *address, size_t size)
{
	char *lease_name = leases[port_of(address)];

	if (strcmp(lease_name, name) != 0)
		return;
	lease_name[0] = '\0';
	vmag_vmem_xfree(ports, address, size);
}

static void obey(const char *command, char *name)
{
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(command, kinds[i].command) == 0) {
			lease(&kinds[i], name);
			return;
		}
	if (strcmp(command, "close") == 0)
		vmag_vmem_walk(ports, VMAG_VMEM_ALLOC, close_if_named, name);
	else if (strcmp(command, "list") == 0)
		list();
	else
		fprintf(stderr, "ports: what is '%s'? one, pair, block, low, close NAME; list\n", command);
}

static void close_all(void *argument, void *address, size_t size)
{
	(void)argument;
	vmag_vmem_xfree(ports, address, size);
}

int main(void)
{
	char line[128], command[16], name[NAME_BYTES];

	ports = vmag_vmem_create("ports", address_of(FIRST), GAP - FIRST, 1, NULL, NULL, NULL, 0, VMAG_VM_NOSLEEP);
	if (ports == NULL || vmag_vmem_add(ports, address_of(GAP_END), END - GAP_END, VMAG_VM_NOSLEEP) == NULL) {
		perror("ports");
		return 1;
	}
	while (fgets(line, sizeof line, stdin) != NULL) {
		name[0] = '\0';
		if (sscanf(line, "%15s %31s", command, name) >= 1)
			obey(command, name);
	}
	vmag_vmem_walk(ports, VMAG_VMEM_ALLOC, close_all, NULL);
	vmag_vmem_destroy(ports);
	return 0;
}
