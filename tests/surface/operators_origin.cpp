// All operator new and delete symbols of a C++ program come from this library, not from libstdc++.
// SPDX-License-Identifier: BSD-2-Clause
#include "../check.h"

#include <dlfcn.h>
#include <new>

static const char *const mangled[] = {"_Znwm", "_Znam", "_ZnwmRKSt9nothrow_t", "_ZnamRKSt9nothrow_t", "_ZnwmSt11align_val_t",
                                      "_ZnamSt11align_val_t", "_ZnwmSt11align_val_tRKSt9nothrow_t",
                                      "_ZnamSt11align_val_tRKSt9nothrow_t", "_ZdlPv", "_ZdaPv", "_ZdlPvm", "_ZdaPvm",
                                      "_ZdlPvRKSt9nothrow_t", "_ZdaPvRKSt9nothrow_t", "_ZdlPvSt11align_val_t",
                                      "_ZdaPvSt11align_val_t", "_ZdlPvmSt11align_val_t", "_ZdaPvmSt11align_val_t",
                                      "_ZdlPvSt11align_val_tRKSt9nothrow_t", "_ZdaPvSt11align_val_tRKSt9nothrow_t"};

int main() {
    ::operator delete(::operator new(1));
    for (const char *name : mangled) {
        void *entry = dlsym(RTLD_DEFAULT, name);
        CHECK_SAY(entry != nullptr, "%s is not visible", name);
        Dl_info information;
        CHECK(dladdr(entry, &information) != 0);
        CHECK_SAY(strstr(information.dli_fname, EXPECTED_HOME) != nullptr, "%s comes from %s", name, information.dli_fname);
    }
    return 0;
}
