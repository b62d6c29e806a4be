"""One server per store, or one cluster: the one whose name is in the store, and who answers when it is asked.

The name is a record like any other, so two servers cannot write theirs at once. There is no lease to renew: whether the
holder lives is asked over NATS, which knows at once if nobody listens. A server that is gone for half a second has lost
the store; a server that only lost its link then finds another name, and its writes are refused by their revisions.
All nodes of a cluster have one name, and each of them answers to it.
"""

import asyncio
import os
import secrets
import socket
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.limits import NatsLimits
from holdfast.logs import get_logger
from holdfast.stores.nats.link import NatsLink, NoAnswer, NoResponder
from holdfast.stores.nats.messages import EXPECTED, TAKEN, NatsMessage, PublishAck, SavedMessage
from holdfast.stores.nats.reading import NatsReader
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import Held, StoreError, Unavailable

if TYPE_CHECKING:
    from nats.aio.msg import Msg

log = get_logger("holdfast.stores")

_ASK_AGAIN_S = 0.1
_ATTEMPTS_MAX = 20


class HolderRecord(msgspec.Struct, frozen=True):
    """The server that uses the store."""

    life: str
    pid: int
    machine: str
    since: float

    def __str__(self) -> str:
        if self.life == _CLUSTER:
            return "a cluster"
        since = datetime.fromtimestamp(self.since, UTC)
        return f"process {self.pid} on {self.machine}, since {since:%Y-%m-%d %H:%M:%S} UTC"


_CLUSTER = "cluster"
_NOBODY = HolderRecord("", 0, "", 0.0)


class StoreHolder:
    """One server's claim on its store."""

    def __init__(
        self, link: NatsLink, reader: NatsReader, subjects: Subjects, limits: NatsLimits, *, place: str
    ) -> None:
        self._link = link
        self._reader = reader
        self._subjects = subjects
        self._limits = limits
        self._place = place
        self._own = HolderRecord(secrets.token_urlsafe(12), os.getpid(), socket.gethostname(), time.time())
        self._is_holding = False
        self._is_told = False

    async def take(self, *, takeover: bool) -> None:
        """Put this server's name into the store; `Held` if another one lives there, unless this is a takeover."""
        await self._link.listen(self._subjects.of_life(self._own.life), self._asked)
        for _ in range(_ATTEMPTS_MAX):
            found = await self._reader.last(self._subjects.holder)
            former = _holder_of(found)
            if former is not _NOBODY and not takeover and await self._is_alive(former):
                raise Held(
                    f"{self._place} is in use by another server: {former}. Stop that one first; or take over its rooms"
                    " on purpose, with --takeover or Storage(…, takeover=True)",
                    str(former),
                )
            if await self._write(self._own, found):
                self._is_holding = True
                await self._link.listen(self._subjects.holder, self._changed)
                return
        raise Unavailable("other servers take the store at the same time")

    async def join(self) -> None:
        """Use the store with the other nodes of a cluster; `Held` if a server uses it alone."""
        self._own = HolderRecord(_CLUSTER, 0, "", 0.0)
        await self._link.listen(self._subjects.of_life(_CLUSTER), self._asked)
        for _ in range(_ATTEMPTS_MAX):
            found = await self._reader.last(self._subjects.holder)
            former = _holder_of(found)
            if former.life == _CLUSTER:
                return
            if former is not _NOBODY and await self._is_alive(former):
                raise Held(
                    f"{self._place} is in use by a server that is not in a cluster: {former}. Stop it first, or give"
                    " the cluster a name of its own, as in nats://127.0.0.1:4222/arena",
                    str(former),
                )
            if await self._write(self._own, found):
                return
        raise Unavailable("other servers take the store at the same time")

    async def has_it(self) -> bool:
        """Whether the store is this server's; it takes it again from one that is gone. A tool never has it."""
        if not self._is_holding:
            return False
        found = await self._reader.last(self._subjects.holder)
        holder = _holder_of(found)
        if holder.life == self._own.life:
            return True
        if holder is not _NOBODY and await self._is_alive(holder):
            return False
        self._is_told = False
        return await self._write(self._own, found)

    async def release(self) -> None:
        """Take this server's name out of the store, if it is there."""
        if not self._is_holding:
            return
        self._is_holding = False
        found = await self._reader.last(self._subjects.holder)
        if _holder_of(found).life == self._own.life:
            await self._write(_NOBODY, found)

    async def _write(self, record: HolderRecord, former: SavedMessage | None) -> bool:
        message = NatsMessage(
            self._subjects.holder, msgspec.json.encode(record), {EXPECTED: str(former.seq if former is not None else 0)}
        )
        answer = await self._link.request(*message)
        ack = msgspec.json.decode(answer.data, type=PublishAck)
        if ack.error is not None and ack.error.err_code not in TAKEN:
            raise Unavailable(f"NATS does not save: {ack.error.description} ({ack.error.err_code})")
        return ack.error is None

    async def _is_alive(self, holder: HolderRecord) -> bool:
        """Whether a server answers, or at least has a link; not if nobody listens for a while."""
        deadline = time.monotonic() + self._limits.nats_holder_s
        while time.monotonic() < deadline:
            try:
                await self._link.request(self._subjects.of_life(holder.life), b"", within_s=self._limits.nats_holder_s)
            except NoResponder:
                # Perhaps it is just connecting again.
                await asyncio.sleep(_ASK_AGAIN_S)
            except NoAnswer:
                # It hangs: when it goes on, it believes that it still has the store.
                return True
            else:
                return True
        return False

    async def _asked(self, message: "Msg") -> None:
        await self._link.reply(message)

    async def _changed(self, _: "Msg") -> None:
        """Somebody has written a name, or tried to."""
        if self._is_told or not self._is_holding:
            return
        try:
            holder = _holder_of(await self._reader.last(self._subjects.holder))
        except StoreError:
            return
        if holder.life != self._own.life:
            self._is_told = True
            log.error("another server took over this store: its rooms are no longer here", holder=str(holder))


def _holder_of(saved: SavedMessage | None) -> HolderRecord:
    if saved is None:
        return _NOBODY
    record = msgspec.json.decode(saved.value, type=HolderRecord)
    return record if record.life else _NOBODY
