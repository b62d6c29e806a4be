"""What every transport promises, said once and run on each of them; see `holdfast.transports.port`."""

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from holdfast.testing.transport_checks import CHECKS, LIMITS, Check, LinkRecorder
from holdfast.transports.port import (
    INTERNAL,
    NORMAL,
    Transport,
)
from tests.transports.harness import ADAPTERS, Harness

SLOW = 4008
IMPATIENT = replace(LIMITS, close_s=0.2)


@pytest.fixture(params=ADAPTERS)
async def harness(request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    harness = Harness(ADAPTERS[request.param]())
    yield harness
    await harness.finish()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_every_transport_keeps_the_ports_promises(harness: Harness, check: Check) -> None:
    await check(harness)


@pytest.mark.parametrize("method", ["opened", "received"])
async def test_a_receiver_that_raises_loses_its_link_and_nothing_else(
    harness: Harness, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(LinkRecorder):
        def opened(self, transport: Transport) -> None:
            super().opened(transport)
            if method == "opened":
                raise RuntimeError("a secret of the server")

        def received(self, payload: bytes) -> None:
            raise RuntimeError("a secret of the server")

    listener = await harness.listen()
    other = await harness.dial(listener)
    other_accepted = await harness.accept()
    harness.make = Faulty

    dialed = await harness.dial(listener)
    dialed.link.send(b"one")
    dialed.link.send(b"two")

    assert await dialed.loss() == (INTERNAL, "")
    assert await (await harness.accept(2)).loss() == (INTERNAL, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    other.link.send(b"unharmed")
    assert await other_accepted.payload() == [b"unharmed"]


async def test_an_accept_that_raises_closes_the_link_it_was_for(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> LinkRecorder:
        raise RuntimeError("a secret of the server")

    harness.make = refuse
    listener = await harness.listen()

    dialed = await harness.dial(listener)

    assert await dialed.loss() == (INTERNAL, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_lost_that_raises_is_logged_and_harms_nobody(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    class Faulty(LinkRecorder):
        def lost(self, code: int, reason: str) -> None:
            super().lost(code, reason)
            raise RuntimeError("too late to matter")

    harness.make = Faulty
    dialed, accepted = await harness.pair()

    dialed.link.close(NORMAL, "")

    assert await dialed.loss() == (NORMAL, "")
    assert await accepted.loss() == (NORMAL, "")
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
