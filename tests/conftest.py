"""What holds for every test."""

import signal

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about Holdfast.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")

# A shell starts what it puts into the background with Ctrl-C ignored, and every process would inherit that from the
# tests: those that are ended by SIGINT would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
