"""The tests pass also when they are started in the background, as by `make test &` in a script."""

import signal
import subprocess
import sys

_CHILD = """
import signal, subprocess, sys
import tests.conftest
inside = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
print(subprocess.run([sys.executable, "-c", inside], capture_output=True, text=True, check=True).stdout.strip())
"""


def test_a_process_that_a_test_starts_hears_ctrl_c_though_the_tests_ignore_it() -> None:
    ignored = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = subprocess.run([sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True)
    finally:
        signal.signal(signal.SIGINT, ignored)

    assert child.stdout.strip() == "False"
