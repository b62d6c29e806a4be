"""Runs deploy/compose.yaml without containers, and plays through its balancer while nodes are killed and replaced.

    make deployed

Three NATS servers, three nodes and HAProxy run as the file says, with the certificates of certificates.sh and a package
that is installed as the Dockerfile does, each in namespaces of its own. Needs root, `ip` and HAProxy.
"""

import argparse
import asyncio
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx

from holdfast import ClientRoom, ClientSession, SessionEnded, connect
from tests.deployed.compose import FILES_MAX, Image, Services, run
from tests.deployed.match import Audit, Count, Counted, Verdict
from tests.nats_server import SERVER
from tests.storm.disk import enter_namespace
from tests.storm_cluster.network import why_no_namespaces

ROOT = Path(__file__).parents[2]
NODES = ("node-1", "node-2", "node-3")
PLAYERS = 6
EVERY_S = 0.05
DEADLINE_S = 90.0
_RETRY_S = 0.2
_FILES_BESIDE = 500
# As in their images.
_NOBODY = 65534
IMAGES = {
    "nats": Image((str(SERVER),)),
    "haproxy": Image((), ("haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"), user=_NOBODY),
    # As root: this Python may be in a folder that nobody else can read.
    "": Image((), folder="/data"),
}


class Match:
    """Players who count, all at the same table, and what they hear."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.sessions: list[ClientSession] = []
        self._rooms: list[ClientRoom] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False
        self.said = [0] * PLAYERS
        self.heard = [0] * PLAYERS
        self.wrong: list[str] = []
        self.drops = 0
        self.outcomes: list[str] = []
        self.longest_s = 0.0

    async def begin(self) -> None:
        """Everybody sits down and begins to count."""
        for number in range(PLAYERS):
            session = await connect(self._url, messages=[Counted, Verdict])
            session.on_drop(lambda _: self._dropped())
            session.on_resume(lambda outcome: self.outcomes.append(outcome.kind))
            self.sessions.append(session)
            room = await (session.join_or_create("match") if not number else session.join(self._rooms[0].id))
            self._rooms.append(room)
        for number, room in enumerate(self._rooms):
            self._tasks += [asyncio.create_task(self._say(number, room)), asyncio.create_task(self._hear(number, room))]

    def _dropped(self) -> None:
        self.drops += 1

    async def _say(self, number: int, room: ClientRoom) -> None:
        while not self._is_over:
            self.said[number] += 1
            await room.send(Count(self.said[number]))
            await asyncio.sleep(EVERY_S)

    async def _hear(self, number: int, room: ClientRoom) -> None:
        with suppress(SessionEnded):
            await self._listen(number, room)

    async def _listen(self, number: int, room: ClientRoom) -> None:
        loop = asyncio.get_running_loop()
        last_at = loop.time()
        async for message in room:
            if isinstance(message, Counted):
                if not self.heard[number]:
                    self.heard[number] = message.total - 1  # it sat down later
                self.heard[number] += 1
                if message.total != self.heard[number]:
                    self.wrong.append(f"player {number} heard {message.total} instead of {self.heard[number]}")
                    self.heard[number] = message.total
                self.longest_s = max(self.longest_s, loop.time() - last_at)
                last_at = loop.time()

    @property
    def room(self) -> str:
        return self._rooms[0].id

    async def goes_on(self) -> None:
        """Wait until everybody has heard what is said from now on."""
        wanted = sum(self.said) + PLAYERS
        async with asyncio.timeout(DEADLINE_S):
            while min(self.heard) < wanted:  # noqa: ASYNC110 - the clients are told nothing else
                await asyncio.sleep(EVERY_S)

    async def end(self) -> None:
        """Everybody stops; what was said is compared with what was counted and heard."""
        self._is_over = True
        await asyncio.gather(*self._tasks[::2])
        for room in self._rooms:
            await room.flush()
        verdict = await self._rooms[0].ask(Audit())
        assert isinstance(verdict, Verdict)
        async with asyncio.timeout(DEADLINE_S):
            while min(self.heard) < verdict.total:  # noqa: ASYNC110 - as above
                await asyncio.sleep(EVERY_S)
        self.wrong += verdict.wrong
        if verdict.total != sum(self.said):
            self.wrong.append(f"{sum(self.said)} messages were sent, {verdict.total} were counted")
        self.wrong += [f"an outcome was {each}" for each in self.outcomes if each != "resumed"]
        for session in self.sessions:
            await session.close()


class Deployment:
    """The services, and what is done to them while a match is played."""

    def __init__(self, services: Services, key: str) -> None:
        self._services = services
        balancer = services.addresses["balancer"]
        self._url = f"ws://{balancer}:7777"
        self._api = httpx.AsyncClient(
            base_url=f"http://{balancer}:7778", headers={"Authorization": f"Bearer {key}"}, timeout=10.0
        )
        self._match = Match(self._url)

    async def play(self) -> list[str]:
        """What went wrong."""
        services = self._services
        await services.open()
        await self._step("start", services.start)
        await self._nodes_are(3)
        await self._match.begin()
        await self._match.goes_on()
        await self._look()
        await self._step("kill -9 of the room's node", self._kill)
        await self._step("drain of the room's node", self._drain)
        await self._step("a rolling deploy", self._deploy)
        await self._step("stop of a NATS server", self._stop_nats)
        await self._look()
        await self._match.end()
        await self._api.aclose()
        return self._match.wrong

    async def _step(self, name: str, act: Callable[[], Awaitable[Any]]) -> None:
        match, loop = self._match, asyncio.get_running_loop()
        match.longest_s, drops, began_at = 0.0, match.drops, loop.time()
        await act()
        if match.sessions:
            await match.goes_on()
        took = f"{loop.time() - began_at:5.1f} s"
        about = f", {match.drops - drops} drops, longest pause {match.longest_s:.2f} s" if match.sessions else ""
        say(f"{name}: {took}{about}")

    async def _kill(self) -> None:
        self._services.kill(await self._room_node())
        await self._match.goes_on()
        await self._nodes_are(3)

    async def _drain(self) -> None:
        name = await self._room_node()
        took_s = await self._services.stop(name)
        await self._match.goes_on()
        say(f"  {name} ended {took_s:.1f} s after SIGTERM")
        await self._services.start(name)
        await self._nodes_are(3)

    async def _deploy(self) -> None:
        for name in NODES:
            await self._services.stop(name)
            await self._services.start(name)
            await self._nodes_are(3)

    async def _stop_nats(self) -> None:
        await self._services.stop("nats-2")
        await self._match.goes_on()
        await self._services.start("nats-2")
        await self._services.healthy("nats-2")

    # What the API shows, through the balancer

    async def _room_node(self) -> str:
        return str((await self._get(f"/v1/rooms/{self._match.room}"))["node"])

    async def _nodes_are(self, count: int) -> None:
        """Wait until so many nodes are ready, as any of them sees it."""
        async with asyncio.timeout(DEADLINE_S):
            while sum(each["is_ready"] for each in (await self._get("/v1/overview"))["nodes"]) != count:  # noqa: ASYNC110 - a process elsewhere
                await asyncio.sleep(_RETRY_S)

    async def _look(self) -> None:
        """What operators see, and that nobody else does."""
        page = await self._get("/v1/sessions?limit=100")
        addresses = {each["address"] for each in page["sessions"]}
        host = self._services.addresses["balancer"].rpartition(".")[0] + ".1"
        self._check(addresses == {host}, f"players come from {addresses}, and not from {host}")
        self._check(page["missing"] == [], f"{page['missing']} did not answer")
        stranger = await self._api.get("/v1/sessions", headers={"Authorization": ""})
        self._check(stranger.status_code == 401, f"whoever has no key is answered {stranger.status_code}")
        metrics = (await self._api.get("/metrics")).text
        self._check('holdfast_sessions{node="node-' in metrics, "metrics do not say of which node they are")
        first = (await self._api.get("/")).text
        self._check("<title>" in first, "there is no dashboard")

    def _check(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._match.wrong.append(otherwise)

    async def _get(self, path: str) -> Any:
        """What a node answers; the one that the balancer asks may have just died."""
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    return (await self._api.get(path)).raise_for_status().json()
                except httpx.HTTPError:
                    await asyncio.sleep(_RETRY_S)


async def install(folder: Path) -> Path:
    """The package in an environment of its own, with the command of the Dockerfile."""
    dockerfile = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
    found = re.search(r"/opt/holdfast/bin/pip install (?:--no-cache-dir )?(.*)", dockerfile)
    assert found is not None
    await run(sys.executable, "-m", "venv", str(folder))
    await run("/bin/sh", "-c", f"{folder}/bin/pip install --quiet {found[1]}", cwd=ROOT)
    return folder


async def deployed(work: Path, package: Path) -> list[str]:
    """Run it all; what went wrong."""
    folder = work / "deploy"
    shutil.copytree(ROOT / "deploy", folder, dirs_exist_ok=True)
    await run("/bin/sh", "certificates.sh", "nats-1", "nats-2", "nats-3", cwd=folder / "nats")
    password, key = secrets.token_hex(32), secrets.token_hex(32)
    os.environ.update(NATS_PASSWORD=password, HOLDFAST_API_KEY=key)
    services = Services(folder / "compose.yaml", work, os.environ, IMAGES)
    if (wanted := services.all["balancer"]["ulimits"]["nofile"]) > FILES_MAX:
        most = FILES_MAX // 2 - _FILES_BESIDE
        say(f"processes may open {FILES_MAX} files here, and not {wanted}: HAProxy runs with maxconn {most}")
        config = folder / "haproxy.cfg"
        config.write_text(re.sub(r"maxconn \d+", f"maxconn {most}", config.read_text("utf-8")), "utf-8")
    game = Path(__file__).with_name("match.py")
    for name in NODES:
        services.all[name].setdefault("volumes", [])
        # What the Dockerfile copies.
        services.all[name]["volumes"] = [
            *services.all[name]["volumes"],
            f"{game}:/srv/game.py:ro",
            f"{package}:/opt/holdfast:ro",
            f"{name}:/data",
        ]
    try:
        return await Deployment(services, key).play()
    finally:
        await services.close()


def main(words: Sequence[str]) -> int:
    """1 if something went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.deployed", description=__doc__)
    parser.add_argument("--folder", type=Path, help="where logs and stores are written; they are kept")
    parser.add_argument("--package", type=Path, help="an environment with the package, to install none")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    missing = why_no_namespaces() or next(
        (f"no {each}" for each in ("haproxy", "setpriv") if not shutil.which(each)), ""
    )
    if missing:
        say(f"this cannot run here: {missing}")
        return 2
    work = (arguments.folder or Path(tempfile.mkdtemp(prefix="holdfast-deployed-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    if not arguments.inside:
        say(f"logs in {work}")
        package = arguments.package or asyncio.run(install(work / "package"))
        options = ["--folder", str(work), "--package", str(package.resolve()), "--inside"]
        enter_namespace("tests.deployed", options, more=["--net"])
        say("this cannot run here: network namespaces are not permitted")
        return 2
    wrong = asyncio.run(deployed(work, arguments.package))
    for each in wrong[:20]:
        say(f"WRONG: {each}")
    say("FAILED" if wrong else "all as it should be")
    return 1 if wrong else 0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
