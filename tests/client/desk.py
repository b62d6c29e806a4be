"""A fake server whose requests a test answers one by one, in the order and at the time it likes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from msgspec import to_builtins

import holdfast
from holdfast import ClientSession, Outcome
from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import FromClient, Notice, Reply, Request, RequestProblem
from holdfast.schemas.room import RoomInfo
from tests.client.fake_server import URL, Chance, FakeLink, FakeServer, welcome


class Asked(NamedTuple):
    """One request that waits for its answer."""

    link: FakeLink
    id: int
    operation: str
    arguments: dict[str, Any]

    def answer(self, result: Any) -> None:
        self.link.say(self.reply(result))

    def refuse(self, code: str) -> None:
        self.link.say(Reply(self.id, problem=RequestProblem(code, f"because of {code}")))

    def reply(self, result: Any) -> Reply:
        return Reply(self.id, to_builtins(result))


class Desk(FakeServer):
    """Welcomes everybody; after a `lose`, the session resumes."""

    def __init__(self, then: str = "resumed", session: str = "s1") -> None:
        super().__init__([welcome()], [welcome(session, then)])
        self._asked: asyncio.Queue[Asked] = asyncio.Queue()

    def heard(self, link: FakeLink, frame: FromClient) -> None:
        if isinstance(frame, Request):
            arguments = MSGPACK.body_decoder(Any).decode(frame.arguments)
            self._asked.put_nowait(Asked(link, frame.id, frame.operation, arguments))

    @property
    def link(self) -> FakeLink:
        return self.links[-1]

    async def next_asked(self) -> Asked:
        """The next request, whatever it is."""
        async with asyncio.timeout(60.0):
            return await self._asked.get()

    async def asked(self, operation: str, **arguments: Any) -> Asked:
        """The next request; it must be this one."""
        asked = await self.next_asked()
        assert (asked.operation, asked.arguments) == (operation, arguments), asked
        return asked

    async def is_asked_nothing(self) -> bool:
        """Nothing more, for as long as a client may take to make up its mind."""
        await asyncio.sleep(0.1)
        return self._asked.empty()

    def notice(self, topic: str, key: str, body: Any) -> None:
        self.link.say(notice(topic, key, body))


def notice(topic: str, key: str, body: Any) -> Notice:
    return Notice(topic, key, to_builtins(body))


@asynccontextmanager
async def visit(desk: Desk, **options: Any) -> AsyncIterator[ClientSession]:
    """A session at the desk."""
    async with holdfast.connect(URL, dial=desk.dial, random=Chance(0.5), **options) as session:
        yield session


async def until_back(session: ClientSession, desk: Desk) -> Outcome:
    """Lose the connection, and wait for the next one."""
    told: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
    session.on_resume(told.set_result)
    desk.link.lose()
    outcome = await told
    session.on_resume.remove(told.set_result)
    return outcome


async def answered(work: Awaitable[Any], desk: Desk, result: Any) -> Any:
    """What a call makes of an answer."""
    task = asyncio.ensure_future(work)
    (await desk.next_asked()).answer(result)
    return await task


def room(number: int, **facts: Any) -> RoomInfo:
    """What the directory shows of a room."""
    basis = {"players": 1, "max_players": 8, "phase": "lobby", "properties": {}, "open_seats": 7}
    return RoomInfo(id=f"room-{number}", kind="arena", **{**basis, **facts})


def page(*rooms: RoomInfo, cursor: str = "") -> dict[str, Any]:
    return {"rooms": list(rooms), "cursor": cursor}
