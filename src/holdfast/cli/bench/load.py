"""A process of the load: it signs bots in, lets them play, cuts their connections, and tells what it has counted."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from inspect import iscoroutinefunction
from multiprocessing.connection import Connection
from random import Random, SystemRandom
from types import ModuleType
from typing import Any

import click
import msgspec

from holdfast.cli.bench.bot import BotSession, CountingProtocol
from holdfast.cli.bench.server import leave_terminal
from holdfast.cli.bench.tally import Histogram, LoadTally
from holdfast.cli.loading import load_module
from holdfast.client.connect import connect, dial
from holdfast.client.connector import DialOptions
from holdfast.client.shared import SharedTypes
from holdfast.core.backoff import FIRST_S, LONGEST_S, Backoff
from holdfast.core.codec import MSGPACK
from holdfast.core.codecs import CODECS
from holdfast.core.errors import HoldfastError
from holdfast.core.limits import Limits
from holdfast.logs.output import set_up
from holdfast.schemas.frames import Auth
from holdfast.server.run import event_loop

# So many bots of a process sign in at a time.
_AT_ONCE = 32
_REPORT_S = 0.25
# How long the server may take to acknowledge what was sent when the bots have stopped.
SETTLE_S = 5.0
_LOOK_S = 0.02
_WATCH_S = 0.02
_OPTIONS = frozenset({"name", "messages", "state", "data", "auth", "codec", "ssl"})


@dataclass(frozen=True)
class Load:
    """What one process of the load does."""

    url: str
    bot: str
    first: int
    """The number of its first bot."""
    step: int
    """How many processes there are: a bot that comes later gets the next number of this process."""
    bots: int
    drop_rate: float
    seed: int


@dataclass(frozen=True)
class BotFile:
    """What a bot's file defines."""

    play: Callable[[BotSession], Any]
    connect: Callable[[int], dict[str, Any]]


def load_bot(target: str) -> BotFile:
    """Run a bot's file; an error in it is a `ClickException`."""
    module: ModuleType = load_module(target)
    play = getattr(module, "play", None)
    if not iscoroutinefunction(play):
        raise click.ClickException(f"{target} needs a function `async def play(session)`.")
    options = getattr(module, "connect", None)
    if options is None or options is connect:
        # A bot may import `connect` for its types.
        return BotFile(play, lambda _: {})
    if not callable(options) or iscoroutinefunction(options):
        raise click.ClickException(f"`connect` in {target} must be a plain function: `def connect(number)`.")
    return BotFile(play, options)


def run_load(pipe: Connection, load: Load) -> None:
    """The life of the process; it ends with its pipe."""
    leave_terminal()
    set_up(logging.ERROR, "console")
    try:
        bot = load_bot(load.bot)
    except click.ClickException as error:
        pipe.send(("failed", error.message))
        return
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(Crowd(load, bot, pipe).run())


class Crowd:
    """The bots of one process."""

    def __init__(self, load: Load, bot: BotFile, pipe: Connection) -> None:
        self._load = load
        self._bot = bot
        self._pipe = pipe
        self._tally = LoadTally()
        self._sessions: dict[int, BotSession] = {}
        self._numbers = iter(range(load.first, 1 << 60, load.step))
        self._seats = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Sign in, play until told to stop, settle, and tell."""
        words: asyncio.Queue[str] = asyncio.Queue()
        asyncio.get_running_loop().add_reader(self._pipe.fileno(), self._hear, words)
        plays = [asyncio.ensure_future(self._keep_playing()) for _ in range(self._load.bots)]
        others = [asyncio.ensure_future(self._report()), asyncio.ensure_future(self._watch())]
        word = ""
        while word not in {"stop", "end"}:
            word = await words.get()
            if word == "go":
                self._tally.sends, self._tally.asks, self._tally.late = Histogram(), Histogram(), Histogram()
                others.append(asyncio.ensure_future(self._drop()))
        for task in (*plays, *others):
            task.cancel()
        await asyncio.gather(*plays, *others, return_exceptions=True)
        if word == "stop":
            await self._settle()
            self._tell("settled")
            await words.get()
        await asyncio.gather(*(self._close(each) for each in list(self._sessions.values())), return_exceptions=True)
        self._tell("ended")

    def _hear(self, words: asyncio.Queue[str]) -> None:
        try:
            words.put_nowait(self._pipe.recv())
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(self._pipe.fileno())
            words.put_nowait("end")
            words.put_nowait("end")

    # One bot after the other, in one place

    async def _keep_playing(self) -> None:
        while await self._play_once(next(self._numbers)):
            self._tally.finished += 1

    async def _play_once(self, number: int) -> bool:
        """Whether the bot has played to its end."""
        session: BotSession | None = None
        try:
            async with self._seats:
                session = await self._sign_in(number)
            await self._bot.play(session)
        except Exception as error:  # noqa: BLE001 - a bot is the user's code: whatever it raises is shown
            self._tally.fail(f"bot {number}: {type(error).__name__}: {error}")
            return False
        await self._settle_one(session)
        await self._close(session)
        return True

    async def _sign_in(self, number: int) -> BotSession:
        session = bot_session(self._load.url, self._bot.connect(number), self._tally)
        session.begin(number, self._load.seed)
        await session.open()
        self._tally.signed_in += 1
        self._sessions[number] = session
        return session

    async def _close(self, session: BotSession) -> None:
        self._sessions.pop(session.number, None)
        session.end()
        self._tally.drops += session.drops
        with suppress(HoldfastError, TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                await session.close()

    # Drops

    async def _drop(self) -> None:
        """Cut connections at random, at a fixed rate."""
        per_s = self._load.drop_rate * self._load.bots
        if not per_s:
            return
        chance = Random(f"{self._load.seed} drops {self._load.first}")  # noqa: S311 - a load needs no secrets
        due = time.perf_counter()
        while True:
            due += chance.expovariate(per_s)
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            up = [session for session in self._sessions.values() if session.connected]
            if up:
                chance.choice(up).cut()
                self._tally.injected += 1

    # The end

    async def _settle(self) -> None:
        await asyncio.gather(*(self._settle_one(each) for each in self._sessions.values()))

    async def _settle_one(self, session: BotSession) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_S):
                while session.protocol.waiting:  # noqa: ASYNC110 - thousands are cheaper to look at than to wake
                    await asyncio.sleep(_LOOK_S)
        self._tally.unconfirmed += session.protocol.waiting

    # The news

    async def _watch(self) -> None:
        """How late is a process that only has to look at the clock?"""
        due = time.perf_counter()
        while True:
            due = max(due + _WATCH_S, time.perf_counter())
            await asyncio.sleep(due - time.perf_counter())
            self._tally.late.add(time.perf_counter() - due)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self._tell("tally")

    def _tell(self, word: str) -> None:
        tally = self._tally
        tally.cpu_s = time.process_time()
        told = msgspec.structs.replace(tally, drops=tally.drops + sum(each.drops for each in self._sessions.values()))
        with suppress(BrokenPipeError):
            self._pipe.send((word, msgspec.msgpack.encode(told)))


def bot_session(url: str, options: dict[str, Any], tally: LoadTally) -> BotSession:
    """A session as `holdfast.connect` makes it, which counts in this tally."""
    if unknown := options.keys() - _OPTIONS:
        raise TypeError(f"a bot's `connect` may give {', '.join(sorted(_OPTIONS))}; got {', '.join(sorted(unknown))}")
    limits = Limits()
    codec = CODECS[options.get("codec", MSGPACK.name)]
    protocol = CountingProtocol(codec, options.get("auth") or Auth(), limits, options.get("name", ""))
    protocol.count_in(tally)
    dialling = DialOptions(
        url=url,
        dial=partial(dial, ssl=options.get("ssl")),
        backoff=Backoff(first_s=FIRST_S, longest_s=LONGEST_S),
        give_up_s=120.0,
        random=SystemRandom(),
        limits=limits,
    )
    shared = SharedTypes(state=options.get("state"), data=options.get("data"))
    return BotSession(protocol, dialling, options.get("messages", ()), None, shared)
