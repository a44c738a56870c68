/* Switches that exist only in the test build (KAGAMI_TEST_HOOKS): fault points, at which a test ends the process as kill -9 would, and named
 * switches that leave something out, so that a test can show what happens without it. In other builds all of it compiles to nothing.
 *
 * Environment, read once: KAGAMI_FAULT=NAME[:N] kills at the N-th passage (1-based, default 1) of fault point NAME; KAGAMI_SWITCHES=a,b turns switches on. Any
 * thread. */
#ifndef KAGAMI_BASE_HOOKS_H
#define KAGAMI_BASE_HOOKS_H

#include <stdbool.h>

#if KAGAMI_TEST_HOOKS
void hook_fault_point(const char *name);
bool hook_switch(const char *name);
void hook_switch_set(const char *name, bool on); /* for units */
#define FAULT_POINT(name) hook_fault_point(name)
#define TEST_SWITCH(name) hook_switch(name)
#else
#define FAULT_POINT(name) ((void)0)
#define TEST_SWITCH(name) false
#endif

#endif
