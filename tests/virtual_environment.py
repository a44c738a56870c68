"""The Python environment of tests and demo: made once from requirements.txt, in $KAGAMI_TEST_VENV or ~/.cache/kagami-tests. Standard library only."""
import fcntl
import hashlib
import os
import subprocess
import sys

TESTS = os.path.dirname(os.path.abspath(__file__))


def python():
    """Path of its interpreter. Processes that come at the same time wait for the first."""
    requirements = os.path.join(TESTS, "requirements.txt")
    with open(requirements, "rb") as f:
        tag = hashlib.sha256(f.read() + sys.version.encode()).hexdigest()[:12]
    home = os.environ.get("KAGAMI_TEST_VENV") or os.path.expanduser("~/.cache/kagami-tests")
    folder = os.path.join(home, "venv-" + tag)
    interpreter = os.path.join(folder, "bin", "python")
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, ".done")):
            for command in ([sys.executable, "-m", "venv", "--clear", folder],
                            [interpreter, "-m", "pip", "install", "-q", "-r", requirements]):
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
                if done.returncode != 0:
                    sys.exit(f"{' '.join(command)} failed:\n{done.stdout[-3000:]}\n"
                             "The tests need python3-venv and the packages of tests/requirements.txt.")
            with open(os.path.join(folder, ".done"), "w"):
                pass
    return interpreter
