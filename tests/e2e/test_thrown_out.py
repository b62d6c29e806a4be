"""A real file and a real SIGKILL: who was thrown out stays out when the server is back."""

import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from holdfast import Reason
from holdfast.schemas.frames import Auth, Hello, Resume, Welcome
from tests.e2e.serving import ANY_PORTS, end_of, holdfast_process, read_until
from tests.server.raw_client import RawClient

GAME = """
from holdfast import Room

class Hall(Room):
    durability = "commit"
    grace_s = 600.0
"""


class Node:
    """A server in a process of its own."""

    def __init__(self, process: Process, told: str) -> None:
        self.process = process
        self.url, self.api = (next(word for word in told.split() if word.startswith(x)) for x in ("ws://", "http://"))

    async def ask(self, method: str, path: str, **options: object) -> None:
        async with httpx.AsyncClient(base_url=self.api.removesuffix("/docs"), trust_env=False) as client:
            answer = await client.request(method, path, **options)  # type: ignore[arg-type]  # as they come
        assert answer.is_success, answer.text

    async def kill(self) -> None:
        assert (await end_of(self.process, by=signal.SIGKILL)).exit_code == -signal.SIGKILL


@asynccontextmanager
async def a_node(folder: Path, recovery: str) -> AsyncIterator[Node]:
    (folder / "game.py").write_text(GAME)
    options = ("--store", "sqlite:game.db", "--recovery", recovery)
    async with holdfast_process("serve", "game.py", *ANY_PORTS, *options, cwd=folder) as process:
        yield Node(process, await read_until(process, "Press Ctrl-C to stop"))


WAYS = {
    "ban": ("POST", "/v1/bans", "lazy", True),
    "sign-out": ("POST", "/v1/players/{player}/sign-out", "eager", False),
    "revoke": ("DELETE", "/v1/sessions/{session}", "lazy", False),
}


@pytest.mark.parametrize(("method", "path", "recovery", "is_banned"), WAYS.values(), ids=WAYS)
async def test_an_old_token_is_dead_after_a_kill(
    tmp_path: Path, method: str, path: str, recovery: str, *, is_banned: bool
) -> None:
    async with a_node(tmp_path, recovery) as node:
        ada, bob = await RawClient.dial(node.url), await RawClient.dial(node.url)
        welcomes = [await ada.sign_in(), await bob.sign_in()]
        for client in (ada, bob):
            await client.join("hall")
        body = {"json": {"player": welcomes[0].player}} if is_banned else {}

        await node.ask(method, path.format(player=welcomes[0].player, session=welcomes[0].session), **body)
        await node.kill()
        for client in (ada, bob):
            await client.ended()

    async with a_node(tmp_path, recovery) as node:
        again = [await RawClient.dial(node.url) for _ in range(3)]
        for client, welcome in zip(again, welcomes, strict=False):
            client.say(Hello(None, Resume(welcome.session, welcome.token, [])))
        again[2].say(Hello(Auth("guest", welcomes[0].credential)))

        assert (await again[0].closed()).reason == Reason.EXPIRED
        assert (await again[1].hear(Welcome)).outcome.kind == "resumed"
        if is_banned:
            assert (await again[2].closed()).reason == Reason.BANNED
        else:
            assert (await again[2].hear(Welcome)).player == welcomes[0].player
        await node.kill()
