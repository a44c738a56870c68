"""Waiting with a deadline, never for a fixed time."""
import os
import time

# Deadlines are for hung programs, not for slow ones: sanitizer builds on a busy machine get four times as long.
SCALE = float(os.environ.get("KAGAMI_TEST_TIME_SCALE") or (4 if os.environ.get("KAGAMI_SANITIZE") else 2))


def seconds(timeout):
    return timeout * SCALE


def wait_until(condition, timeout, what, pause=0.05):
    """Calls condition() until it answers something true, and returns that. what: text, or a function that describes the state at the end."""
    deadline = time.monotonic() + seconds(timeout)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds(timeout):.0f} s: {what() if callable(what) else what}")
        time.sleep(pause)
