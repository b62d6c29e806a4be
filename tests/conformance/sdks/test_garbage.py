"""A server that makes no sense is a protocol error with a reason, whatever it says and whenever."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.typing import Subprotocol

from holdfast.core.codec import MSGPACK
from holdfast.schemas.frames import Data, Frame, Outcome, SeatFrame, Terms, Welcome
from tests.cases import every_case
from tests.conformance.sdks.programs import Program

TERMS = Terms(65536, 1024, 262144, 16, 5.0, 16.0, 30.0)
Said = bytes | str | list[Frame]


def welcome(outcome: str = "new") -> Welcome:
    return Welcome("s1", "ada", "token", Outcome(outcome), TERMS, credential="ada.secret")


class Liar:
    """Says what it was given, one list for each connection, and then waits for the client to hang up."""

    def __init__(self, *stories: list[Said]) -> None:
        self._stories = list(stories)
        self.url = ""

    async def talk(self, link: ServerConnection) -> None:
        story = self._stories.pop(0) if self._stories else []
        try:
            await link.recv()
            for said in story:
                await link.send(MSGPACK.encode(said) if isinstance(said, list) else said)
            async for _ in link:
                pass
        except ConnectionClosed:
            pass


@asynccontextmanager
async def lying(*stories: list[Said]) -> AsyncIterator[Liar]:
    liar = Liar(*stories)
    async with serve(liar.talk, "127.0.0.1", 0, subprotocols=[Subprotocol(MSGPACK.name)], compression=None) as server:
        host, port = next(iter(server.sockets)).getsockname()[:2]
        liar.url = f"ws://{host}:{port}"
        yield liar


NONSENSE: dict[str, Said] = {
    "no bytes": b"",
    "random bytes": bytes(range(255, 0, -7)),
    "a text": "hello",
    "a number": msgspec.msgpack.encode(7),
    "an unknown frame": msgspec.msgpack.encode([["teleport", 1]]),
    "half a welcome": MSGPACK.payload(welcome())[:-9],
    "a welcome with a number for a name": msgspec.msgpack.encode([["welcome", 1, 2, 3]]),
    "a message before the welcome": [Data(1, 1, 0, "down", msgspec.Raw(b"\xc0"))],
    "two welcomes": [welcome(), welcome()],
    "a message of a channel that never was": [welcome(), Data(9, 1, 0, "down", msgspec.Raw(b"\xc0"))],
}


@every_case("said", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_instead_of_a_welcome_is_a_protocol_error(client: Program, said: Said) -> None:
    async with lying([said]) as liar:
        answer = await client.attempt("connect", url=liar.url)
        if "error" not in answer:
            # There was a welcome; what came with it is found a moment later.
            answer = await client.attempt("join")

    assert answer["error"] == "protocol"


async def test_nonsense_after_the_welcome_ends_the_session_with_a_reason(client: Program) -> None:
    async with lying([[welcome()], [SeatFrame("joined", 1, 1, "r1", "counting")], b"\xc1"]) as liar:
        await client.do("connect", url=liar.url)
        answer = await client.attempt("join")

    assert answer["error"] == "protocol"


async def test_a_gap_is_closed_and_resumed(client: Program) -> None:
    gap: list[Frame] = [
        welcome(),
        SeatFrame("joined", 1, 1, "r1", "counting"),
        Data(1, 2, 0, "down", msgspec.Raw(b"\xc0")),
    ]
    async with lying([gap], [[welcome("resumed")]]) as liar:
        await client.do("connect", url=liar.url)
        outcome = (await client.event("resume"))["outcome"]

    assert outcome["kind"] == "resumed"
