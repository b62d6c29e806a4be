"""The nodes of `holdfast demo --nodes`: processes of one cluster, on a NATS server of the demo's own.

A node that ends is started again after a few seconds; meanwhile the others have its room. Clients that were connected
to it are sent to another one, as by a balancer.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Self

import click
import msgspec

from holdfast.cli.demo.server import Ready, ServerProcess
from holdfast.cli.node import Node
from holdfast.cluster.child_nats import ChildNats, ChildNatsFailed

Address = tuple[str, int]

NODES_MAX = 9
_RESTART_PAUSE_S = 4.0
"""Long enough to see that a node is away and its room is not."""
_WATCH_S = 0.25
_TRANSPORT = "websocket"


class NodeStatus(msgspec.Struct):
    """One node, as the page shows it."""

    name: str
    pid: int | None
    state: str
    """"dead", "starting", "draining", "drained", or what the other nodes say."""
    has_room: bool


class DemoNodes:
    """Runs the nodes within `async with`; `moved` is called whenever clients may have to go to another node."""

    def __init__(self, folder: Path, nodes: int, moved: Callable[[], None], options: Sequence[str] = ()) -> None:
        """`options` are the port of the first node's HTTP API and the page's origin, if there is a page."""
        self.room_node = ""
        """The name of the node that has the room; empty while none does."""
        self.back_after_s = 0.0
        """How long it took, the latest time that the node with the room ended, until another one had it."""
        self._folder = folder
        self._nodes = nodes
        self._moved = moved
        self._port, *self._origin = options or ["0"]
        self._nats = ChildNats(folder / "nats")
        self._processes: dict[str, ServerProcess] = {}
        self._members: dict[str, dict[str, Any]] = {}
        self._room = ""
        self._latest: Address = ("", 0)
        self._turn = count()
        # When the node that had the room ended, until another one has it.
        self._homeless_since: float | None = None
        self._homeless_of = ""

    # What the demo of one server has too

    @property
    def crashes(self) -> int:
        return sum(process.crashes for process in self._processes.values())

    @property
    def ready(self) -> Ready | None:
        """A node that listens; None while there is none."""
        for process in self._processes.values():
            if process.ready is not None:
                return msgspec.structs.replace(process.ready, room=self._room)
        return None

    def route(self, current: Address | None) -> Address:
        """Where a client is to connect: where it does, as long as that node takes clients, or else to the next one."""
        up = [name for name, process in self._processes.items() if process.ready is not None]
        names = [name for name in up if not self._is_draining(name)] or up
        addresses = [address for name in names if (address := self._address(name)) is not None]
        if current in addresses:
            return current
        if addresses:
            self._latest = addresses[next(self._turn) % len(addresses)]
        return self._latest

    async def keep_running(self) -> None:
        """Start nodes again whenever they end, and watch where the room is."""
        async with asyncio.TaskGroup() as tasks:
            for process in self._processes.values():
                tasks.create_task(process.keep_running())
            tasks.create_task(self._watch())

    def crash(self, name: str = "") -> None:
        """Kill a node with SIGKILL: this one, or the one that has the room."""
        process = self._processes.get(name or self.room_node)
        if process is not None:
            process.crash()

    def log(self) -> str:
        logs = ((name, process.log()) for name, process in self._processes.items())
        return "\n".join(f"{name}: {text}" for name, text in logs if text)

    # What only nodes have

    @property
    def nodes(self) -> list[NodeStatus]:
        return [
            NodeStatus(
                name,
                process.ready.pid if process.ready is not None else None,
                self._state(name),
                name == self.room_node,
            )
            for name, process in self._processes.items()
        ]

    def name_of(self, address: Address | None) -> str:
        """The node that listens there; empty if there is none."""
        return next((name for name in self._processes if address is not None and self._address(name) == address), "")

    async def move(self, to: str) -> None:
        """Let the room go on on this node; `ClickException` with the reason if it cannot."""
        await self._ask("POST", "rooms", self._room, "move", body={"to": to})
        self.room_node = to

    async def drain(self, name: str, *, is_on: bool) -> None:
        """Let a node hand over what it has and take nothing new, or end that."""
        self._members[name] = await self._ask("POST" if is_on else "DELETE", "nodes", name, "drain")
        self._moved()

    async def session_node(self, session: str) -> str:
        """Where a session is; empty while it is nowhere."""
        try:
            return str((await self._ask("GET", "sessions", session)).get("node", ""))
        except click.ClickException:
            return ""

    def _state(self, name: str) -> str:
        if self._processes[name].ready is None:
            return "dead"
        member = self._members.get(name)
        if member is None or member["state"] in {"dead", "left"}:
            return "starting"
        if member["state"] == "alive" and member.get("is_draining"):
            return "drained" if member.get("is_drained") else "draining"
        return str(member["state"])

    def _is_draining(self, name: str) -> bool:
        return self._state(name) in {"draining", "drained"}

    def _address(self, name: str) -> Address | None:
        ready = self._processes[name].ready
        return (ready.host, ready.port) if ready is not None else None

    async def _ask(self, method: str, *path: str, body: Any = None) -> Any:
        ready = self.ready
        if ready is None:
            raise click.ClickException("All nodes are down. They are started again in a few seconds.")
        return await asyncio.to_thread(Node(ready.http).ask, method, *path, body=body)

    # Watching

    async def _watch(self) -> None:
        """Ask a node for all nodes and for the room, again and again: they are other processes, as for an operator."""
        while True:
            await asyncio.sleep(_WATCH_S)
            try:
                members = (await self._ask("GET", "nodes"))["nodes"]
                room = await self._ask("GET", "rooms", self._room)
            except click.ClickException:
                # The node that was asked has just ended, or no node has the room now.
                continue
            # A node that was started again is listed twice: as the dead one, too.
            dead_first = sorted(members, key=lambda each: each["state"] == "alive")
            self._members = {each["name"]: each for each in dead_first}
            self._found(room.get("node", ""))
            self._moved()

    def _found(self, name: str) -> None:
        """This node says that it has the room."""
        process = self._processes.get(name)
        if process is None or process.ready is None:
            # The others have not noticed yet.
            return
        self.room_node = name
        if self._homeless_since is not None and name != self._homeless_of:
            self.back_after_s = asyncio.get_running_loop().time() - self._homeless_since
            self._homeless_since = None

    def _gone(self, name: str) -> None:
        """This node has ended."""
        self._members.pop(name, None)
        if name == self.room_node:
            self.room_node = ""
            self._homeless_since, self._homeless_of = asyncio.get_running_loop().time(), name
        self._moved()

    # Starting and stopping

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stop()
            raise
        return self

    async def _start(self) -> None:
        try:
            await self._nats.start()
        except ChildNatsFailed as error:
            raise click.ClickException(str(error)) from None
        for number in range(1, self._nodes + 1):
            name = f"node-{number}"
            (self._folder / name).mkdir()
            port = self._port if number == 1 else "0"
            self._processes[name] = ServerProcess(
                self._folder / name,
                lambda _: self._moved(),
                [_TRANSPORT, port, *(self._origin or [""])],
                cluster=self._nats.url("demo"),
                pause_s=_RESTART_PAUSE_S,
                gone=partial(self._gone, name),
            )
        await asyncio.gather(*(process.start() for process in self._processes.values()))
        made = await self._ask("POST", "rooms", body={"kind": "arena"})
        self._room, self.room_node = made["id"], made.get("node", "")
        self._moved()

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await asyncio.gather(*(process.stop() for process in self._processes.values()))
        await self._nats.stop()
