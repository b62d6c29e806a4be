"""Some clients of the storm in one program: `python -m tests.storm.clients <urls> <folder> <seats> <hurry> <who>…`.

Of several addresses, with commas between, each client begins with another one. On its standard output it says who is
back, who leaves a room, and who is through with what its standard input asked for: "probe N" (who has something
acknowledged that was sent after this is back; and all try to create the stage N), "finish" (send nothing more, and
wait until everything is acknowledged), then "ask" (hear the last event).
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import holdfast
from holdfast import ClientRoom, ClientSession, Drop, HoldfastError, Outcome, Refused, Reset
from tests.storm.game import Ask, Event, Op, Report
from tests.storm.history import Writer

OPS_HZ = 25.0
# So few that a client which is last to come back does not miss more than a room keeps for it.
UNACKED_MAX = 48
# A wanderer leaves its room after this many operations, and takes a seat in one that has room.
_STAY_OPS = 60
_FIRST_DIAL_S = 0.2


def say(*words: object) -> None:
    """To the controller."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class Settings(NamedTuple):
    """Of all clients."""

    seats: int
    """In a room."""
    hurry: float
    """What part of its back-off a client waits."""


class Hurry(SystemRandom):
    """Chance that is small: a client's wait before it dials again is a part of its longest one."""

    def __init__(self, part: float) -> None:
        super().__init__()
        self._part = part

    def random(self) -> float:
        return super().random() * self._part


class StormClient:
    """One player: sends numbered operations, reads everything, writes it all down."""

    def __init__(self, who: str, urls: list[str], folder: Path, settings: "Settings") -> None:
        self._who = who
        self._seats = settings.seats
        self._is_wanderer = who.startswith("w")
        self._history = Writer(folder / f"client-{who}.jsonl")
        self._random = Random(who)
        self._connecting = holdfast.connect(
            urls, messages=[Event, Report], give_up_s=600.0, random=Hurry(settings.hurry)
        )
        self._session: ClientSession = self._connecting.session
        self._session.on_drop(self._dropped)
        self._session.on_resume(self._resumed)
        self._room: ClientRoom | None = None
        self._seq = 0
        self._acked = 0
        self._probe: int | None = None
        self._staging: set[asyncio.Task[None]] = set()
        self._reported = asyncio.Event()

    # Life

    async def live(self, door: asyncio.Lock, finish: asyncio.Event, ask: asyncio.Event) -> None:
        try:
            await self._play(door, finish, ask)
        except HoldfastError as error:
            # A seat or a session was lost, which must not be.
            self._history.note("strange", repr(error))
            raise

    async def _play(self, door: asyncio.Lock, finish: asyncio.Event, ask: asyncio.Event) -> None:
        # One after the other: who comes at the same moment gets a room of their own.
        async with door:
            await self._connecting
            room = await self._join()
        self._is_back(room)
        reading = asyncio.create_task(self._read(room))
        stay = 0
        while not finish.is_set():
            await asyncio.sleep(self._random.uniform(0.5, 1.5) / OPS_HZ)
            if self._unacked(room) < UNACKED_MAX:
                stay += 1
                self._seq += 1
                await room.send(Op(self._who, self._seq))
                self._history.note("sent", self._seq)
            self._note_acked(room)
            if self._is_wanderer and stay >= _STAY_OPS:
                stay = 0
                await room.flush()
                self._note_acked(room)
                await self._leave(room, reading)
                room = await self._join()
                self._is_back(room)
                reading = asyncio.create_task(self._read(room))
        await room.flush()
        self._note_acked(room)
        await asyncio.gather(*self._staging)
        self._history.note("finished")
        say("finished", self._who)
        await ask.wait()
        await room.send(Ask())
        await self._reported.wait()
        reading.cancel()
        await asyncio.wait([reading])
        self._history.note("done")
        say("done", self._who)
        await self._session.suspend()

    async def _join(self) -> ClientRoom:
        while True:
            try:
                room = await self._session.join_or_create("storm", max_players=self._seats)
            except (Refused, Reset) as refused:
                # A session that has no durable seat yet is forgotten with its server, and so is what it asked for.
                self._history.note("refused", refused.code if isinstance(refused, Refused) else "reset")
                await asyncio.sleep(_FIRST_DIAL_S)
                continue
            self._room = room
            self._history.note("joined", room.id)
            return room

    async def _leave(self, room: ClientRoom, reading: asyncio.Task[None]) -> None:
        say("leaving", self._who)
        await room.leave()
        await reading
        self._room = None
        self._history.note("left", room.id)

    async def _read(self, room: ClientRoom) -> None:
        async for message in room:
            match message:
                case Event():
                    self._history.note(
                        "got", message.n, message.kind, message.who, message.seq, message.dice, message.chain
                    )
                case Report():
                    self._history.note("report", message.n)
                    self._reported.set()
                case _:
                    self._history.note("strange", repr(message))
            self._note_acked(room)

    # Acknowledgements

    def _unacked(self, room: ClientRoom) -> int:
        return self._session.protocol.unacked(room.channel)

    def _note_acked(self, room: ClientRoom) -> None:
        acked = self._seq - self._unacked(room)
        if acked > self._acked:
            self._acked = acked
            self._history.note("acked", acked)
        if self._probe is not None and self._acked >= self._probe and self._room is not None:
            self._probe = None
            self._is_back(self._room)

    def probe(self, number: int) -> None:
        """Say when something is acknowledged that is sent from now on; and try to create a room that is to be one."""
        self._probe = self._seq + 1
        task = asyncio.create_task(self._stage(f"stage {number}"))
        self._staging.add(task)
        task.add_done_callback(self._staging.discard)

    async def _stage(self, name: str) -> None:
        for _ in range(2):
            try:
                info = await self._session.create("stage", name=name, idempotency_key=name)
            except HoldfastError as error:
                self._history.note("stage", name, "", getattr(error, "code", repr(error)))
            else:
                self._history.note("stage", name, info.id, "")

    # Connections

    def _dropped(self, _: Drop) -> None:
        self._history.note("dropped")

    def _resumed(self, outcome: Outcome) -> None:
        self._history.note("outcome", outcome.kind, outcome.replayed, outcome.reason, self._room is not None)
        if self._room is not None:
            self._is_back(self._room)

    def _is_back(self, room: ClientRoom) -> None:
        say("back", self._who, time.monotonic(), room.id)


async def _listen(clients: list[StormClient], finish: asyncio.Event, ask: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := (await reader.readline()).decode().strip():
        if line.startswith("probe "):
            for client in clients:
                client.probe(int(line.removeprefix("probe ")))
        else:
            {"finish": finish, "ask": ask}[line].set()
    # Whoever started us is gone.
    os._exit(1)


async def main(urls: list[str], folder: Path, settings: Settings, names: list[str]) -> None:
    door, finish, ask = asyncio.Lock(), asyncio.Event(), asyncio.Event()
    clients = [
        StormClient(who, urls[n % len(urls) :] + urls[: n % len(urls)], folder, settings) for n, who in enumerate(names)
    ]
    listening = asyncio.create_task(_listen(clients, finish, ask))
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.live(door, finish, ask))
    listening.cancel()


if __name__ == "__main__":
    settings = Settings(int(sys.argv[3]), float(sys.argv[4]))
    asyncio.run(main(sys.argv[1].split(","), Path(sys.argv[2]), settings, sys.argv[5:]))
