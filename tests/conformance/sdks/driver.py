"""The Python SDK as a program: commands as JSON lines on stdin, answers and events as JSON lines on stdout.

Every SDK has a driver like this one (clients/js/test/driver.mjs). A command is an object with `do`; its answer has
`done` (and more), or `error`. What happens by itself has `event`.

    do          with                  answers with
    connect     url, resume, codec, name  session, player, name, outcome
    rename      name                  name
    create      kind, properties, config, …   room
    join        kind, or room; options  room
    reserve     room, options         (a seat for oneself)
    spectate    room                  room
    seat                              room: that of the session's seat, which it reads from now on
    count       numbers, answers      (sends that many: 1, 2, 3 … or on from where it was; each is answered so often)
    pour        numbers               (asks the room to send that many)
    ask         number, times, wait_s  answers: of the room, to that many asks one after the other
    flush                             once the room has applied all that was sent
    heard       until                 down, wrong: the last number that came, and those out of turn; not before `until`
    shared      -                     state, players, mine: what the room shares now, and changes: how often it changed
    receive     numbers               messages: the next so many to the session itself, each a type and a body
    save        -                     state
    suspend     -                     state
    leave       -
    close       -

Events are `drop`, `resume` (outcome), `stopping`, `close` (reason), `left` (reason) and `resynced`. Who goes on from a
state counts on after `up` and `down`.
"""

import asyncio
import base64
import json
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

import holdfast
from holdfast import (
    ClientRoom,
    ClientSession,
    HoldfastError,
    Message,
    Outcome,
    Reset,
    RoomUpdated,
    SessionEnded,
    Untyped,
)
from holdfast.client.inbox import Resynced
from tests.conformance.sdks.game import Add, Down, Pour, State, Sum, Up, Word
from tests.saved_sessions import storage_of, suspended


def say(**said: Any) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def told(outcome: Outcome | None) -> dict[str, Any]:
    assert outcome is not None
    return {"kind": outcome.kind, "replayed": outcome.replayed, "reason": outcome.reason}


def plain(message: Message) -> list[Any]:
    """A message to the session, as every SDK tells it."""
    match message:
        case Untyped(type, body):
            return [type, body]
        case Resynced():
            return ["holdfast.resynced", {}]
        case _:
            return [message.wire_name, msgspec.to_builtins(message)]


@dataclass
class Heard:
    """What came from the room."""

    down: int = 0
    wrong: list[int] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    """Where the room was when it spoke, and when the stream began anew."""
    stale: list[int] = field(default_factory=list)
    """The numbers that came while the room's state was not that of their turn."""
    stateless: int = 0
    """How many came without one."""
    changes: int = 0


class Driver:
    def __init__(self) -> None:
        self.session: ClientSession | None = None
        self.room: ClientRoom | None = None
        self.heard = Heard()
        self.sent = 0
        self.came = asyncio.Event()
        self.listening: asyncio.Task[None] | None = None

    async def connect(self, url: str, resume: str = "", down: int = 0, up: int = 0, **options: Any) -> dict[str, Any]:
        state = base64.b64decode(resume) if resume else None
        way = holdfast.connect(
            url, messages=[Down, State, Sum, Word], saved=storage_of(state), give_up_s=60.0, **options
        )
        session = self.session = way.session
        session.on_drop(lambda _: say(event="drop"))
        session.on_resume(lambda outcome: say(event="resume", outcome=told(outcome)))
        session.on_stopping(lambda deadline_s: say(event="stopping", deadline_s=deadline_s))
        await way
        self.heard.down, self.sent = down, up
        if (room := session.room or session.spectating) is not None:
            self.listen(room)
        return {
            "session": session.id,
            "player": session.player_id,
            "name": session.name,
            "outcome": told(session.outcome),
        }

    async def rename(self, name: str) -> dict[str, Any]:
        assert self.session is not None
        return {"name": await self.session.rename(name)}

    async def create(self, kind: str, **options: Any) -> dict[str, Any]:
        assert self.session is not None
        return {"room": (await self.session.create(kind, **options)).id}

    async def join(self, kind: str = "counting", room: str = "", **options: Any) -> dict[str, Any]:
        assert self.session is not None
        session = self.session
        taken = await (session.join(room, **options) if room else session.join_or_create(kind, **options))
        self.listen(taken)
        return {"room": taken.id}

    async def reserve(self, room: str, **options: Any) -> None:
        assert self.session is not None
        await self.session.reserve(room, **options)

    async def spectate(self, room: str) -> dict[str, Any]:
        assert self.session is not None
        self.listen(await self.session.spectate(room))
        return {"room": room}

    async def seat(self) -> dict[str, Any]:
        assert self.session is not None
        assert self.session.room is not None
        self.listen(self.session.room)
        return {"room": self.session.room.id}

    def listen(self, room: ClientRoom) -> None:
        self.room = room
        room.on_change(lambda _: self.changed())
        self.listening = asyncio.create_task(self.read(room))

    def changed(self) -> None:
        self.heard.changes += 1

    async def shared(self) -> dict[str, Any]:
        assert self.room is not None
        room = self.room
        return {
            "state": room.state,
            "players": dict(room.players),
            "mine": room.mine,
            "changes": self.heard.changes,
        }

    async def read(self, room: ClientRoom) -> None:
        try:
            async for message in room:
                match message:
                    case Down(number):
                        if number != self.heard.down + 1:
                            self.heard.wrong.append(number)
                        self.heard.down = number
                        if room.state is None:
                            self.heard.stateless += 1
                        elif room.state["down"] != number:
                            self.heard.stale.append(number)
                    case Word(where):
                        self.heard.words.append(where)
                    case Resynced():
                        self.heard.words.append("resynced")
                        say(event="resynced")
                    case State(_, down):
                        self.heard.down = down
                    case RoomUpdated():
                        pass  # the room's entry, behind the state
                    case _:
                        say(event="unexpected", message=repr(message))
                self.came.set()
            assert room.left is not None
            say(event="left", reason=room.left.reason)
        except SessionEnded as end:
            say(event="close", reason=end.reason)

    async def count(self, numbers: int, answers: int = 0) -> None:
        assert self.room is not None
        for _ in range(numbers):
            self.sent += 1
            await self.room.send(Up(self.sent, answers))

    async def pour(self, numbers: int) -> None:
        assert self.room is not None
        await self.room.send(Pour(numbers))

    async def ask(self, number: int, times: int = 1, wait_s: float = 0.0) -> dict[str, Any]:
        assert self.room is not None
        answers = [await self.room.ask(Add(number, wait_s)) for _ in range(times)]
        return {"answers": [answer.sum for answer in answers]}

    async def flush(self) -> None:
        assert self.room is not None
        await self.room.flush()

    async def tell_heard(self, until: int = 0) -> dict[str, Any]:
        while self.heard.down < until:
            self.came.clear()
            await self.came.wait()
        return asdict(self.heard)

    async def receive(self, numbers: int) -> dict[str, Any]:
        assert self.session is not None
        messages = [await self.session.receive() for _ in range(numbers)]
        return {"messages": [plain(message) for message in messages]}

    async def save(self) -> dict[str, Any]:
        assert self.session is not None
        return {"state": base64.b64encode(self.session.protocol.save()).decode()}

    async def suspend(self) -> dict[str, Any]:
        assert self.session is not None
        return {"state": base64.b64encode(await suspended(self.session)).decode()}

    async def leave(self) -> None:
        assert self.room is not None
        await self.room.leave()

    async def close(self) -> None:
        assert self.session is not None
        await self.session.close()

    async def do(self, command: dict[str, Any]) -> None:
        name = command.pop("do")
        way = self.tell_heard if name == "heard" else getattr(self, name)
        try:
            say(done=name, **(await way(**command) or {}))
        except (HoldfastError, OSError) as error:
            reason = error.reason if isinstance(error, SessionEnded | Reset) else getattr(error, "code", "unreachable")
            say(done=name, error=reason, message=str(error))


async def main() -> None:
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=2**22)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    driver = Driver()
    doing: set[asyncio.Task[None]] = set()
    while line := await lines.readline():
        # Not one after the other: a `flush` may wait for what comes later.
        task = asyncio.create_task(driver.do(msgspec.json.decode(line)))
        doing.add(task)
        task.add_done_callback(doing.discard)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
