"""What holds for every test."""

from hypothesis import HealthCheck, settings

# How long an example takes says something about the machine, and nothing about Holdfast.
settings.register_profile("holdfast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("holdfast")
