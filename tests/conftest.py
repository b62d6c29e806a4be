"""What holds for every test."""

import gc
import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about Holdfast. CI tries the same examples
# each time, so that it judges the change and not its luck; everybody else tries new ones.
_ANY = settings(deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("holdfast", _ANY)
settings.register_profile("quick", _ANY, max_examples=20)  # make quick
settings.register_profile("long", _ANY, max_examples=2000)  # HYPOTHESIS_PROFILE=long make test ARGS="tests/search"
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "holdfast"))

# A check that fails shows what it compared, as a test does. Here, because tests of several folders import them.
pytest.register_assert_rewrite("holdfast.testing.transport_checks")

# Thousands of tests stay in memory: the garbage collector need not look at them again and again.
gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


# A shell starts what it puts into the background with Ctrl-C ignored, and every process would inherit that from the
# tests: those that are ended by SIGINT would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
