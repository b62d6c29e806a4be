"""A short run of what `make fuzz` does for long: the inputs that are kept, each of them gone bad, and some new ones."""

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.core.noise import Noise
from tests.fuzz.corpus import kept
from tests.fuzz.targets import TARGETS, Doors, EnetDoor, Handshake, Target, UdpDoor

ROUNDS = 3


@pytest.fixture(params=TARGETS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def target(name: str) -> Iterator[Target]:
    made = TARGETS[name]()
    yield made
    if isinstance(made, Doors | EnetDoor | Handshake | UdpDoor):
        made.close()


def test_every_input_that_is_kept_is_survived(name: str, target: Target) -> None:
    inputs = kept(name)

    for each in inputs:
        target(each)

    assert inputs


def test_every_input_that_is_kept_is_survived_when_it_has_gone_bad(name: str, target: Target) -> None:
    inputs = kept(name)
    noise = Noise(7)

    for _ in range(ROUNDS * len(inputs)):
        target(noise.mutated(inputs))


@pytest.mark.skipif(find_spec("atheris") is None, reason="atheris does not exist for this system")
def test_a_short_run_of_the_fuzzer_finds_nothing() -> None:
    """Of one target, and the part of the code that it tries: the inputs of all are tried above."""
    name = next(iter(TARGETS))
    command = [sys.executable, "-m", "tests.fuzz.libfuzzer", name, "-runs=2000", "-seed=1"]
    environment = {**os.environ, "HOLDFAST_FUZZ_CODE": "holdfast.core.codec"}

    run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    assert run.returncode == 0, run.stderr
    assert "Done 2000 runs" in run.stderr
