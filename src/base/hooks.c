#include "base/hooks.h"

#if KAGAMI_TEST_HOOKS
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SWITCHES_MAX 16
#define SWITCH_NAME_MAX 48

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char fault_name[SWITCH_NAME_MAX];
static _Atomic int fault_countdown;
static struct {
    char name[SWITCH_NAME_MAX];
    _Atomic bool on;
} switches[SWITCHES_MAX];
static _Atomic int switch_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void switch_store(const char *name, bool on)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < switch_count && strcmp(switches[i].name, name) != 0)
        i++;
    if (i == switch_count && i < SWITCHES_MAX) {
        snprintf(switches[i].name, SWITCH_NAME_MAX, "%s", name);
        switch_count = i + 1;
    }
    if (i < SWITCHES_MAX)
        switches[i].on = on;
    pthread_mutex_unlock(&lock);
}

static void read_environment(void)
{
    const char *fault = getenv("KAGAMI_FAULT"), *list = getenv("KAGAMI_SWITCHES");

    if (fault != NULL) {
        const char *colon = strchr(fault, ':');
        snprintf(fault_name, sizeof(fault_name), "%.*s", colon != NULL ? (int)(colon - fault) : 40, fault);
        fault_countdown = colon != NULL ? atoi(colon + 1) : 1;
    }
    if (list != NULL) {
        char copy[256], *save = NULL;
        snprintf(copy, sizeof(copy), "%s", list);
        for (char *name = strtok_r(copy, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save))
            switch_store(name, true);
    }
}

void hook_fault_point(const char *name)
{
    pthread_once(&once, read_environment);
    if (fault_name[0] != '\0' && strcmp(fault_name, name) == 0 && atomic_fetch_sub(&fault_countdown, 1) == 1) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

bool hook_switch(const char *name)
{
    pthread_once(&once, read_environment);
    for (int i = 0; i < switch_count; i++) {
        if (switches[i].on && strcmp(switches[i].name, name) == 0)
            return true;
    }
    return false;
}

void hook_switch_set(const char *name, bool on)
{
    pthread_once(&once, read_environment);
    switch_store(name, on);
}
#endif
