"""One node's side of its line with another, and the links on it.

What a turn of the event loop produced for all links goes out in one message, or in a few. The links take turns, part by
part.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from holdfast.cluster.port import Bus, BusError
from holdfast.cluster.relay.line import Line
from holdfast.cluster.relay.link import RelayedLink, StreamFrame, cost_of
from holdfast.core.limits import ClusterLimits
from holdfast.logs import get_logger
from holdfast.schemas.relay import LinkCredit, LinkPart, RelayFrame, RelayMessage

log = get_logger("holdfast.cluster")

RELAY = "relay"
"""The topic; the life that it is for follows."""
# Of what costs no credit, in one message.
_URGENT_MAX = 128
_CREDITS_MAX = 512
_encoder = msgspec.msgpack.Encoder()


class RelayPeer:
    """Another node, as far as links go there or come from there."""

    def __init__(
        self, bus: Bus, own_life: str, life: str, *, limits: ClusterLimits, next_line: Callable[[], int]
    ) -> None:
        self.life = life
        self._bus = bus
        self._own_life = own_life
        self._limits = limits
        self._line = Line(next_line, limits.relay_line_bytes_max)
        self._loop = asyncio.get_running_loop()
        self.links: dict[int, RelayedLink] = {}
        """By the number that the dialing node gave it: positive if that is this one, otherwise negative."""
        self.heard_at = self._loop.time()
        self.sent_at = self._loop.time()
        self._urgent: list[RelayFrame] = []
        self._wanting: dict[RelayedLink, None] = {}
        self._owed: dict[RelayedLink, int] = {}
        self._must_speak = False
        self._unconfirmed_bytes = 0
        self._speaking: asyncio.Task[None] | None = None
        self._ack: asyncio.TimerHandle | None = None
        self.tasks: set[asyncio.Task[None]] = set()
        """What takes connections over; each is soon done."""

    # From the links

    def wants(self, link: RelayedLink) -> None:
        self._wanting[link] = None
        self._speak()

    def post(self, frame: RelayFrame) -> None:
        self._urgent.append(frame)
        self._speak()

    def owe(self, link: RelayedLink, size: int) -> None:
        owed = self._owed[link] = self._owed.get(link, 0) + size
        if owed >= self._limits.relay_unread_bytes_max // 4:
            self.speak_anyway()
        else:
            self._confirm_soon()

    def forget(self, link: RelayedLink) -> None:
        self.links.pop(link.number, None)
        self._wanting.pop(link, None)
        self._owed.pop(link, None)

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # From the bus

    def heard(self, message: RelayMessage, size: int) -> bool:
        """Whether the frames of a message are to be carried out."""
        judgement = self._line.judge(
            message.line, message.number, to=message.to, heard=message.heard, past=message.past
        )
        if judgement.drops_links:
            self._drop_links("messages were lost")
            self.speak_anyway()
        if judgement.is_stale:
            self._confirm_soon()
        if not judgement.is_taken:
            return False
        self.heard_at = self._loop.time()
        if message.frames:
            self._unconfirmed_bytes += size
            if self._unconfirmed_bytes >= self._limits.relay_line_bytes_max // 4:
                self.speak_anyway()
            else:
                self._confirm_soon()
        if self._wanting:
            # They may have waited for the other node to hear more.
            self._speak()
        return True

    # The end of a line

    def give_up(self, why: str, *, is_gone: bool = False) -> None:
        """The links end here; unless it is gone, the other node is told."""
        self._line.give_up()
        # That a node has died or said bye is told elsewhere.
        self._drop_links("" if is_gone else why)
        if not is_gone:
            self.speak_anyway()

    def _drop_links(self, why: str = "") -> None:
        """Whoever hears of it may dial again at once. It is a warning, if there is a reason for one."""
        links, self.links = self.links, {}
        self._urgent.clear()
        self._wanting.clear()
        self._owed.clear()
        self._unconfirmed_bytes = 0
        if links and why:
            log.warning("the links with another node are lost", node=self.life, links=len(links), why=why)
        for link in links.values():
            link.severed()

    def stop(self) -> None:
        """Say nothing more."""
        self._drop_links()
        if self._ack is not None:
            self._ack.cancel()
        if self._speaking is not None:
            self._speaking.cancel()

    # Speaking

    def speak_anyway(self) -> None:
        """Also if there is nothing to say."""
        self._must_speak = True
        self._speak()

    def _confirm_soon(self) -> None:
        if self._ack is None:
            self._ack = self._loop.call_later(self._limits.relay_ack_s, self._confirm)

    def _confirm(self) -> None:
        self._ack = None
        self.speak_anyway()

    def _speak(self) -> None:
        if self._speaking is None or self._speaking.done():
            self._speaking = self._loop.create_task(self._say_all())

    async def _say_all(self) -> None:
        while True:
            frames = self._next_frames()
            if not frames and not self._must_speak:
                return
            self._must_speak = False
            self._unconfirmed_bytes = 0
            if self._ack is not None:
                self._ack.cancel()
                self._ack = None
            line = self._line
            number = line.next_number()
            message = RelayMessage(self._own_life, line.mine, number, line.theirs, line.heard, line.past, tuple(frames))
            payload = _encoder.encode(message)
            if frames:
                line.note_sent(len(payload))
            self.sent_at = self._loop.time()
            try:
                await self._bus.tell(f"{RELAY}.{self.life}", payload)
            except BusError as error:
                self.give_up(str(error), is_gone=True)

    def _next_frames(self) -> list[RelayFrame]:
        """What goes into one message: first what costs no credit."""
        frames, self._urgent = self._urgent[:_URGENT_MAX], self._urgent[_URGENT_MAX:]
        for link in list(self._owed)[:_CREDITS_MAX]:
            frames.append(LinkCredit(link.number, self._owed.pop(link)))
        if self._urgent or self._owed:
            # Parts may belong to what was not said yet.
            return frames
        size = 0
        while self._wanting and size < self._limits.relay_message_bytes_max and self._line.has_room:
            link = next(iter(self._wanting))
            del self._wanting[link]
            part: StreamFrame | None = link.next_part()
            if part is not None:
                # At the end of the queue: the others have their turn first.
                self._wanting[link] = None
                frames.append(part)
                size += cost_of(part) if isinstance(part, LinkPart) else 0
        return frames
