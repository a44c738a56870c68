/* The real file system with a gate before fdatasync of .log files: a test holds flushes back, counts them, or makes them fail. */
#ifndef KAGAMI_TESTS_GATE_FS_H
#define KAGAMI_TESTS_GATE_FS_H

#include <stdbool.h>

#include "os/file.h"
#include "os/mutex.h"

struct gate_fs {
    struct fs fs;
    struct mutex mutex;
    struct condition changed;
    bool closed; /* flushes wait */
    int tickets; /* that may pass a closed gate */
    bool failing;
    int entered, left; /* flushes that came to the gate, and that went on */
};

void gate_fs_init(struct gate_fs *g);
void gate_fs_fini(struct gate_fs *g);
void gate_close(struct gate_fs *g);
void gate_open(struct gate_fs *g);
void gate_let_pass(struct gate_fs *g, int count);      /* while closed */
void gate_fail(struct gate_fs *g);                     /* opens it; every flush from now on fails */
void gate_await_entered(struct gate_fs *g, int count); /* until so many flushes have come to the gate, in all */
int gate_entered(struct gate_fs *g);

#endif
