"""No byte of what is private, hidden, in another player's view or in an area that is not seen leaves the server for
anybody else: on no link, in nothing that the directory shows, and in no log line."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import ClientSession, HoldfastError, Limits
from holdfast.core.codec import JSON, MSGPACK
from holdfast.server.rooms.shared_views import SharedViews
from holdfast.state import errors, shapes
from holdfast.state import plan as plans
from holdfast.state.plan import Audience
from holdfast.testing import FaultyStore, MemoryServer, Network, run
from tests.server.secret_worlds import EVERYBODY, Vault, allowed, owners_in, vault

LIMITS = Limits(window_messages_max=8, kept_messages_max=24, payload_bytes_max=2048)
STEPS = 40


class Leaks:
    """What was seen by somebody who may not see it."""

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()

    def check(self, name: str, text: bytes, may_see: set[str]) -> None:
        self.found |= {(name, owner) for owner in owners_in(text) - may_see}


class LogTap(logging.Handler):
    """Every log line, as text, with its fields and its traceback."""

    def __init__(self, leaks: Leaks) -> None:
        super().__init__()
        self._leaks = leaks
        self.setFormatter(logging.Formatter())

    def emit(self, record: logging.LogRecord) -> None:
        said = f"{self.format(record)} {vars(record).get('fields')!r}"
        self._leaks.check("the log", said.encode(), {EVERYBODY})


@contextmanager
def listening(leaks: Leaks) -> Iterator[None]:
    tap = LogTap(leaks)
    logging.getLogger().addHandler(tap)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(tap)


class Story:
    """One server, one vault, and clients that come, go, drop and are resynced while it changes."""

    def __init__(self, server: MemoryServer, leaks: Leaks, random: Random) -> None:
        self.server = server
        self.leaks = leaks
        self.random = random
        self.sessions: dict[str, ClientSession] = {}

    async def run(self) -> None:
        await self.join("ada", MSGPACK.name)
        await self.join("bob", JSON.name)
        for _ in range(STEPS):
            await self.step()
            await asyncio.sleep(self.random.choice([0.0, 0.05, 0.5]))
        await self.shown()

    @property
    def room(self) -> Vault:
        (room,) = self.server.rooms
        assert isinstance(room, Vault)
        return room

    async def join(self, name: str, codec: str) -> None:
        session = self.sessions[name] = await self.server.connect(name, codec=codec)
        await session.join_or_create("vault")

    async def step(self) -> None:
        what = self.random.randrange(20)
        name = self.random.choice(list(self.sessions))
        if what < 10:
            self.turns(1)
        elif what < 13:
            self.drop(name)
        elif what < 16:
            self.server.dialer(self.sessions[name]).is_down = False
        elif what == 16:
            self.turns(40)
        elif what == 17:
            await self.come()
        elif what == 18:
            self.trouble()
        else:
            await self.crash()

    def turns(self, number: int) -> None:
        def begin() -> None:
            for _ in range(number):
                self.room.after(0.0, self.room.turn)

        with suppress(ValueError):
            self.server.machine.call(begin)

    def drop(self, name: str) -> None:
        session = self.sessions[name]
        self.server.dialer(session).is_down = True
        self.server.link(session).cut()

    async def come(self) -> None:
        with suppress(HoldfastError, TimeoutError):
            await asyncio.wait_for(self._come(), 5.0)

    async def _come(self) -> None:
        if "cat" not in self.sessions:
            await self.join("cat", self.random.choice([MSGPACK.name, JSON.name]))
        elif "eve" not in self.sessions:
            session = self.sessions["eve"] = await self.server.connect("eve")
            await session.spectate(self.room.id)

    def trouble(self) -> None:
        def make() -> None:
            self.room.is_blind = not self.room.is_blind
            if self.random.random() < 1 / 3:
                self.room.after(0.0, self.room.spoil)

        self.server.machine.call(make)

    async def crash(self) -> None:
        if self.room.durability == "memory":
            return
        self.server.crash()
        await asyncio.sleep(0.5)
        await self.server.start()

    async def shown(self) -> None:
        """What the directory and the lists of operators show; their view of a room's state is another."""
        for session in self.sessions.values():
            self.server.dialer(session).is_down = False
        await asyncio.sleep(30.0)
        with suppress(HoldfastError, TimeoutError):
            await asyncio.wait_for(self.sessions["ada"].search("vault"), 5.0)
        rooms = self.server.operate.rooms
        shown = self.server.machine.result_of(lambda: [rooms.get(self.room.id), rooms.seats(self.room.id)])
        self.leaks.check("the directory", repr(shown).encode(), {EVERYBODY})


def leaks_of(random: Random) -> set[tuple[str, str]]:
    leaks = Leaks()
    network = Network()

    async def main() -> None:
        kind = vault(random, random.choice(["memory", "checkpoint", "commit"]))
        server = MemoryServer([kind], store=FaultyStore(), limits=LIMITS, network=network, allow_errors=(Exception,))

        def tap(link: Any, side: str, payload: bytes) -> None:
            if side == "server":
                leaks.check(names.get(link, ""), payload, allowed(names.get(link, "")))

        names = Names(server)
        network.on_payload = tap
        async with server:
            await Story(server, leaks, random).run()

    with listening(leaks):
        run(main())
    return leaks.found


class Names:
    """Whose link it is."""

    def __init__(self, server: MemoryServer) -> None:
        self._server = server

    def get(self, link: Any, default: str) -> str:
        dialers = map(self._server.dialer, self._server.clients)
        return next((each.name for each in dialers if link in each.links), default)


# A world takes as long as a hundred examples of other tests; HYPOTHESIS_PROFILE=long tries 400.
@settings(max_examples=settings().max_examples // 5)
@given(st.integers(0, 2**32 - 1))
def test_nothing_secret_reaches_anybody_else(seed: int) -> None:
    assert leaks_of(Random(seed)) == set()


# Bugs that have to be found


def _private_is_public(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(plans._MODES, Audience.EVERYBODY, plans._Mode.OWN)  # noqa: SLF001 - a bug is planted there


def _hidden_is_own(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(plans._MODES, Audience.OWNER, plans._Mode.ALL)  # noqa: SLF001 - the same


def _another_seat(patch: pytest.MonkeyPatch) -> None:
    seen_from = SharedViews.seen_from

    def seen(self: SharedViews, seat: Any, view: Any) -> Any:
        others = [each for each in self._seats.occupied if each is not seat]
        return seen_from(self, others[0] if others else seat, view)

    patch.setattr(SharedViews, "seen_from", seen)


def _all_areas(patch: pytest.MonkeyPatch) -> None:
    seen_from = SharedViews.seen_from
    patch.setattr(SharedViews, "seen_from", lambda *args: (seen := seen_from(*args))._replace(worlds=seen.view.worlds))


def _values_in_messages(patch: pytest.MonkeyPatch) -> None:
    for module in (errors, shapes, plans):
        patch.setattr(module, "a", repr)
    from holdfast.state import containers  # noqa: PLC0415 - its name is that of a local

    patch.setattr(containers, "a", repr)


@pytest.mark.parametrize("plant", [_private_is_public, _hidden_is_own, _another_seat, _all_areas, _values_in_messages])
def test_a_leak_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    assert any(leaks_of(Random(seed)) for seed in range(40))
