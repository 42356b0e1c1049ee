// A library that is as large as its sister, and whose only function has another frame: FRAME bytes. Beside the program `reopened`.
// SPDX-License-Identifier: BSD-2-Clause
#define TEXT(of) #of
#define TEXT_OF(of) TEXT(of)

void *allocate_in_library(void);
extern void at_end(void *(*function)(void)) __attribute__((weak));

#ifdef __x86_64__
__asm__(".text\n.balign 4096\n.globl allocate_in_library\n.type allocate_in_library,@function\nallocate_in_library:\n.cfi_startproc\n"
        " .byte 0x48,0x81,0xec\n .long " TEXT_OF(FRAME) "\n.cfi_def_cfa_offset " TEXT_OF(FRAME) "+8\n" // sub, always as long
        " mov $100,%edi\n call malloc@PLT\n"
        " .byte 0x48,0x81,0xc4\n .long " TEXT_OF(FRAME) "\n.cfi_def_cfa_offset 8\n ret\n.cfi_endproc\n.balign 4096\n");
#endif

__attribute__((destructor)) static void end(void) {
    if (at_end)
        at_end(allocate_in_library);
}
