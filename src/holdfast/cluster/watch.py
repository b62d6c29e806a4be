"""Membership on a bus: hears the beats of others, asks after those that fell silent, and tells of every change."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import msgspec

from holdfast.cluster.membership import MemberChange, MemberList, MemberState
from holdfast.cluster.port import Bus, NobodyThere, NoReply
from holdfast.core.limits import ClusterLimits
from holdfast.logs import get_logger
from holdfast.schemas.beat import Beat, Goodbye

log = get_logger("holdfast.cluster")

BEATS, BYES, NODES = "beat", "bye", "node"
"""The topics: each is followed by the life that it is about."""
# So many others are asked whether they hear a node that is silent here.
_WITNESSES_MAX = 3
_HEARD = b"heard"


class MemberWatch:
    """One node's view of the cluster, kept from `start` to `stop`."""

    def __init__(
        self, bus: Bus, own_life: str, limits: ClusterLimits, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._bus = bus
        self._wall_clock = wall_clock
        self._own_life = own_life
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self.membership = MemberList(own_life, limits, self._loop.time())
        self.on_change: list[Callable[[MemberChange], None]] = []
        self._watching: asyncio.Task[None] | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._proving: asyncio.Task[None] | None = None
        self._turn = 0

    async def start(self) -> None:
        """Listen, and watch from now on. The bus is open already."""
        self._bus.on_reconnect(self.doubt)
        await self._bus.answer(f"{NODES}.{self._own_life}", self._asked_of)
        await self._bus.listen(f"{BEATS}.*", self._beat)
        await self._bus.listen(f"{BYES}.*", self._bye)
        self._watching = self._loop.create_task(self._watch())

    async def stop(self) -> None:
        """Watch no more; the bus stays open."""
        tasks = [task for task in (self._watching, self._proving, *self._asking.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def doubt(self) -> None:
        """The fault may be here: the link was lost, or the store does not answer."""
        self.membership.doubt(self._loop.time())

    def _beat(self, _: str, payload: bytes) -> None:
        try:
            beat = msgspec.msgpack.decode(payload, type=Beat)
        except msgspec.MsgspecError as error:
            log.warning("a beat cannot be read", error=str(error))
            return
        self._tell(self.membership.heard(beat, self._loop.time(), self._wall_clock()))

    def _bye(self, _: str, payload: bytes) -> None:
        try:
            bye = msgspec.msgpack.decode(payload, type=Goodbye)
        except msgspec.MsgspecError as error:
            log.warning("a bye cannot be read", error=str(error))
            return
        self._tell(self.membership.said_bye(bye.life, self._loop.time()))

    async def _watch(self) -> None:
        while True:
            # Not only at each beat: a node that is dead should not be alive for a beat longer than it must.
            await asyncio.sleep(self._limits.probe_s)
            self._tell(self.membership.advance(self._loop.time()))
            if not self.membership.is_proven and (self._proving is None or self._proving.done()):
                self._proving = self._loop.create_task(self._prove())
            for life in self.membership.to_ask(self._loop.time()):
                if life not in self._asking:
                    task = self._asking[life] = self._loop.create_task(self._ask(life))
                    task.add_done_callback(partial(self._asked, life))

    async def _prove(self) -> None:
        began_at = self._loop.time()
        if await self._bus.reaches_most():
            self.membership.proven(began_at)

    def _asked(self, life: str, _: asyncio.Task[None]) -> None:
        del self._asking[life]

    async def _ask(self, life: str) -> None:
        try:
            await self._bus.ask(f"{NODES}.{life}", b"", self._limits.probe_s)
        except NobodyThere:
            found_at = self._loop.time()
            await self._ask_others(life)
            member = self.membership.members.get(life)
            if member is None or member.heard_at > found_at:
                return
            self._tell(self.membership.absent(life, self._loop.time()))
        except NoReply:
            await self._ask_others(life)
            self.membership.present(life)
        else:
            self.membership.present(life)

    async def _ask_others(self, life: str) -> None:
        """Whether one of some other nodes hears it: then only the way to this one is cut."""
        members = self.membership.members.items()
        others = [each for each, member in members if member.state is MemberState.ALIVE and each != life]
        # In turn, if there are many.
        self._turn += 1
        first = self._turn % len(others) if others else 0
        asked = [*others[first:], *others[:first]][:_WITNESSES_MAX]
        answers = await asyncio.gather(
            *(self._bus.ask(f"{NODES}.{each}", life.encode(), self._limits.probe_s) for each in asked),
            return_exceptions=True,
        )
        if _HEARD in answers:
            self.membership.vouched(life, self._loop.time())

    def _asked_of(self, life: bytes) -> bytes:
        """Another node asks whether this one is there, or whether it hears a third one."""
        member = self.membership.members.get(life.decode(errors="replace"))
        is_heard = member is not None and self._loop.time() - member.heard_at < self._limits.suspect_s
        return _HEARD if is_heard else b""

    def wrote(self, life: str) -> None:
        """Another node has saved something that was here."""
        self._tell(self.membership.wrote(life, self._loop.time()))

    def _tell(self, changes: list[MemberChange]) -> None:
        for change in changes:
            log.info("a node is now something else", node=change.life, state=change.after.value, why=change.why)
            for heard in self.on_change:
                heard(change)
