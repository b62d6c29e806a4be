"""A bus in memory, for several nodes in one process: each has a link of its own, which can be cut and mended.

    network = BusNetwork()
    bus = MemoryBus(network)
    network.cut(bus)

What is said arrives at the next turn of the event loop, on the machine that opened the bus; a machine that is paused or
has crashed hears nothing. `network.fate` may lose messages, or let them arrive late.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context

from holdfast.cluster.port import Answer, Heard, NobodyThere, NoReply
from holdfast.testing.clock import Machine


class BusNetwork:
    """What connects the buses of all nodes."""

    def __init__(self) -> None:
        self.linked: dict[MemoryBus, None] = {}
        """The buses that have a link."""
        self.fate: Callable[[MemoryBus, MemoryBus, str], float | None] = lambda *_: 0.0
        """How many seconds a message on a topic takes from one bus to another; None if it is lost."""
        self._free_at: dict[tuple[MemoryBus, MemoryBus], float] = {}

    def delay_s(self, sender: "MemoryBus", receiver: "MemoryBus", topic: str) -> float | None:
        """The fate of the next message, which overtakes none before it."""
        delay_s = self.fate(sender, receiver, topic)
        if delay_s is None:
            return None
        now = asyncio.get_running_loop().time()
        arrives_at = max(now + delay_s, self._free_at.get((sender, receiver), 0.0))
        if arrives_at > now:
            self._free_at[sender, receiver] = arrives_at
        return arrives_at - now

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
        self.ignores: Callable[[bytes], bool] = lambda _: False
        """Which questions to this node are not heard."""
        self.loses_answer: Callable[[bytes], bool] = lambda _: False
        """Which questions to this node are carried out, and the answers lost."""
        self.is_hidden = False
        """Whether it is said that nobody answers here, as for a moment after the bus has moved a link."""
        self._heard: list[tuple[str, Heard]] = []
        self.answers: dict[str, Answer] = {}
        """Who replies to the questions on which topic."""
        self._on_reconnect: list[Callable[[], None]] = []
        self._home = Context()
        self._machine: Machine | None = None

    async def open(self) -> None:
        self._is_open = True
        self._home, self._machine = copy_context(), Machine.here()
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
            self._home.copy().run(heard)

    async def reaches_most(self) -> bool:
        await asyncio.sleep(0)
        return self in self._network.linked

    async def tell(self, topic: str, payload: bytes) -> None:
        self._check_open()
        if self in self._network.linked:
            for bus in self._network.linked:
                delay_s = self._network.delay_s(self, bus, topic)
                if delay_s is not None:
                    bus.tell_soon(topic, payload, delay_s)

    def tell_soon(self, topic: str, payload: bytes, delay_s: float = 0.0) -> None:
        """A message is on its way here."""
        loop, home = asyncio.get_running_loop(), self._home.copy()
        if delay_s > 0:
            loop.call_later(delay_s, self._told, topic, payload, context=home)
        else:
            loop.call_soon(self._told, topic, payload, context=home)

    def _told(self, topic: str, payload: bytes) -> None:
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
            asked = next((bus for bus in self._network.linked if topic in bus.answers and not bus.has_crashed), None)
            if asked is None or asked.is_hidden:
                raise NobodyThere(topic)
            there_s = self._network.delay_s(self, asked, topic)
            if there_s is not None and asked.hears and not asked.ignores(payload):
                await asyncio.sleep(there_s)
                task = asyncio.get_running_loop().create_task(
                    _answered(asked.answers[topic], payload), context=asked.home
                )
                done, _ = await asyncio.wait([task], timeout=within_s)
                is_lost = asked.loses_answer(payload) or self._network.delay_s(asked, self, topic) is None
                if done and not is_lost:
                    return task.result()
                if done:
                    await asyncio.sleep(within_s)
                raise NoReply("no reply")
        await asyncio.sleep(within_s)
        raise NoReply("no reply")

    @property
    def home(self) -> Context:
        """Where its answers are made."""
        return self._home.copy()

    @property
    def hears(self) -> bool:
        """Whether its node is awake."""
        return not self.is_deaf and (self._machine is None or self._machine.is_running)

    @property
    def has_crashed(self) -> bool:
        """Whether its node is gone, and its link with it."""
        return self._machine is not None and self._machine.has_crashed

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError("the bus is not open")


async def _answered(answer: Answer, payload: bytes) -> bytes:
    reply = answer(payload)
    return await reply if isinstance(reply, Awaitable) else reply
