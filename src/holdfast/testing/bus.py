"""A bus in memory, for several nodes in one process: each has a link of its own, which can be cut and mended.

    network = BusNetwork()
    bus = MemoryBus(network)
    network.cut(bus)

What is said arrives at the next turn of the event loop.
"""

import asyncio
from collections.abc import Callable

from holdfast.cluster.port import Answer, Heard, NobodyThere, NoReply


class BusNetwork:
    """What connects the buses of all nodes."""

    def __init__(self) -> None:
        self.linked: dict[MemoryBus, None] = {}
        """The buses that have a link."""

    def cut(self, bus: "MemoryBus") -> None:
        """Cut the link of a node, which is not told."""
        self.linked.pop(bus, None)

    def mend(self, bus: "MemoryBus") -> None:
        """Link a node again; now it is told."""
        self.linked[bus] = None
        bus.reconnected()


class MemoryBus:
    """One node's link to a network in memory."""

    def __init__(self, network: BusNetwork) -> None:
        self._network = network
        self._is_open = False
        self.is_deaf = False
        """Whether questions to this node are heard and not answered, as when it hangs."""
        self._heard: list[tuple[str, Heard]] = []
        self.answers: dict[str, Answer] = {}
        """Who replies to the questions on which topic."""
        self._on_reconnect: list[Callable[[], None]] = []

    async def open(self) -> None:
        self._is_open = True
        self._network.linked[self] = None

    async def close(self) -> None:
        self._is_open = False
        self._network.cut(self)
        self._heard.clear()
        self.answers.clear()

    def on_reconnect(self, heard: Callable[[], None]) -> None:
        self._on_reconnect.append(heard)

    def reconnected(self) -> None:
        """The link is back."""
        for heard in self._on_reconnect:
            heard()

    async def tell(self, topic: str, payload: bytes) -> None:
        self._check_open()
        if self in self._network.linked:
            for bus in self._network.linked:
                asyncio.get_running_loop().call_soon(bus.told, topic, payload)

    def told(self, topic: str, payload: bytes) -> None:
        """A message has come."""
        for wanted, heard in list(self._heard):
            if topic == wanted or (wanted.endswith(".*") and topic.rpartition(".")[0] == wanted[:-2]):
                heard(topic, payload)

    async def listen(self, topic: str, heard: Heard) -> None:
        self._check_open()
        self._heard.append((topic, heard))

    async def answer(self, topic: str, answer: Answer) -> None:
        self._check_open()
        self.answers[topic] = answer

    async def ask(self, topic: str, payload: bytes, within_s: float) -> bytes:
        self._check_open()
        if self in self._network.linked:
            await asyncio.sleep(0)
            for bus in self._network.linked:
                if topic in bus.answers:
                    if not bus.is_deaf:
                        return bus.answers[topic](payload)
                    break
            else:
                raise NobodyThere(topic)
        await asyncio.sleep(within_s)
        raise NoReply("no reply")

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("the bus is not open")
