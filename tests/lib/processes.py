"""Child processes that don't outlive the test, and free ports that two test runs don't share."""
import ctypes
import fcntl
import os
import random
import signal
import socket
import tempfile

PORTS = os.environ.get("KAGAMI_TEST_PORTS") or "22000-22999"

_libc = ctypes.CDLL(None, use_errno=True)
_locks = []


def die_with_parent():
    """preexec_fn: the kernel kills the child when the test ends, however it ends."""
    _libc.prctl(1, signal.SIGKILL) # PR_SET_PDEATHSIG


def _is_free(port):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_ports(count=1):
    """The first of `count` ports in a row that are free; kept for this process (by a lock file) until it ends."""
    first, last = (int(n) for n in PORTS.split("-"))
    folder = os.path.join(tempfile.gettempdir(), "kagami-test-ports")
    os.makedirs(folder, exist_ok=True)
    starts = list(range(first, last - count, count))
    random.shuffle(starts)
    for start in starts:
        taken = []
        try:
            for port in range(start, start + count):
                lock = open(os.path.join(folder, str(port)), "w") # pylint: disable=consider-using-with
                taken.append(lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not _is_free(port):
                    raise BlockingIOError
        except BlockingIOError:
            for lock in taken:
                lock.close()
            continue
        _locks.extend(taken)
        return start
    raise AssertionError(f"no {count} free ports in {PORTS} (KAGAMI_TEST_PORTS)")
