// Misuse of caches, one a run: it must be told in one line that names the object and the call.
// SPDX-License-Identifier: BSD-2-Clause
#include <vmag/cache.h>

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "../misuse/misuse.h"

static vmag_cache_t *create(const char *name, vmag_destructor_t *destructor) {
    return vmag_cache_create(name, 48, 0, NULL, destructor, NULL, NULL, NULL, 0);
}

static void destruct(void *object, void *argument) {
    (void)object, (void)argument;
}

static vmag_cache_t *own;

static bool forks;

static void destroy_own(void *unused) {
    int status;
    pid_t child = forks ? fork() : 0;

    (void)unused;
    if (child != 0) { // ends as the child does
        CHECK_EQ(waitpid(child, &status, 0), child);
        signal(SIGABRT, SIG_DFL);
        raise(WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL);
    }
    vmag_cache_destroy(hidden(own));
}

int main(int count, char **arguments) {
    const char *crime = count > 1 ? arguments[1] : "";
    vmag_cache_t *cache = create("objects", NULL), *costly = create("costly", destruct), *other = create("other", NULL);
    char *object = vmag_cache_alloc(cache, VMAG_SLEEP), *dear = vmag_cache_alloc(costly, VMAG_SLEEP);
    char stack[64] = "";

    if (strcmp(crime, "double_free") == 0) { // told at the exit at the latest
        announce("vmag_cache_free", object);
        vmag_cache_free(cache, object);
        vmag_cache_free(cache, hidden(object));
        return 0;
    }
    if (strcmp(crime, "double_free_constructed") == 0) {
        announce("vmag_cache_free", dear);
        vmag_cache_free(costly, dear);
        vmag_cache_free(costly, hidden(dear));
        vmag_cache_reap(costly);
    }
    if (strcmp(crime, "wrong_cache") == 0) {
        announce("vmag_cache_free", object);
        vmag_cache_free(other, object);
        vmag_cache_reap(other);
    }
    if (strcmp(crime, "wrong_cache_constructed") == 0) {
        announce("vmag_cache_free", object);
        vmag_cache_free(costly, object);
        vmag_cache_destroy(costly);
    }
    if (strcmp(crime, "inside") == 0) {
        announce("vmag_cache_free", object + 16);
        vmag_cache_free(cache, hidden(object + 16));
        return 0;
    }
    if (strcmp(crime, "stack") == 0) {
        announce("vmag_cache_free", hidden(stack));
        vmag_cache_free(costly, hidden(stack));
        vmag_cache_reap(costly);
    }
    if (strcmp(crime, "malloc_object") == 0) {
        void *foreign = malloc(48);
        announce("vmag_cache_free", foreign);
        vmag_cache_free(cache, hidden(foreign));
        return 0;
    }
    if (strcmp(crime, "to_free") == 0) {
        announce("free", object);
        free(hidden(object));
    }
    if (strcmp(crime, "destroyed_cache") == 0) {
        vmag_cache_destroy(other);
        announce("vmag_cache_alloc", other);
        vmag_cache_alloc(hidden(other), VMAG_NOSLEEP);
    }
    if (strcmp(crime, "freed_to_destroyed") == 0) { // which loses its first word when its memory is free
        vmag_cache_destroy(other);
        announce("vmag_cache_free", other);
        vmag_cache_free(hidden(other), object);
    }
    if (strcmp(crime, "destroyed_twice") == 0) {
        vmag_cache_destroy(other);
        announce("vmag_cache_destroy", other);
        vmag_cache_destroy(hidden(other));
    }
    own = vmag_cache_create("own", 48, 0, NULL, NULL, destroy_own, NULL, NULL, 0);
    if (strcmp(crime, "destroyed_by_reclaim") == 0) { // its structure would be used afterwards
        announce("vmag_cache_destroy", own);
        vmag_cache_reap(own);
    }
    if (strcmp(crime, "destroyed_by_reclaim_of_all") == 0) { // it would wait for itself
        announce("vmag_cache_destroy", own);
        vmag_caches_reap();
    }
    if (strcmp(crime, "destroyed_by_childs_reclaim") == 0) { // which goes on from where its parent's is
        announce("vmag_cache_destroy", own);
        forks = true;
        vmag_cache_reap(own);
        return 1;
    }
    return unnoticed();
}
