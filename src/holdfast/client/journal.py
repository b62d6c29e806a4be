"""What a saved session writes, and when: everything is stored before the server hears of it.

A journal is a snapshot of the session and the changes since, each in a frame of its own (length, checksum, content), so
that a process killed in the middle of a write leaves a tail that is recognised and passed over.

    what                          is stored
    a message that is sent        by `send`, with its number, before it can be written to a connection
    how far messages were read    before an acknowledgement or a hello tells the server
    token, seats, resyncs         before anything is written after the welcome or the frame that brought them
    what the server acknowledged  before anything is written after it: a server that forgets it must be told so
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct, structs

from holdfast.client.protocol import ClientProtocol
from holdfast.client.saved import SavedChannel, SavedState, SessionStorage
from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.errors import Invalid
from holdfast.core.limits import Limits
from holdfast.schemas.frames import Number

_HEAD = struct.Struct("<II")


class Sent(Struct, frozen=True, array_like=True, tag="sent"):
    """A message, with the number that it has from now on."""

    channel: Number
    seq: Number
    name: str
    body: bytes


class Read(Struct, frozen=True, array_like=True, tag="read"):
    """How far a channel was processed, and what of ours the server has acknowledged."""

    channel: Number
    received: Number
    acked: Number


_CHANGES = msgspec.msgpack.Decoder(Sent | Read)


def frame(content: bytes) -> bytes:
    """A record as it is written."""
    return _HEAD.pack(len(content), crc32(content)) + content


def frames(written: bytes) -> Iterator[bytes]:
    """The records that are whole; what comes after the first that is not was never finished."""
    view, at = memoryview(written), 0
    while at + _HEAD.size <= len(view):
        length, checksum = _HEAD.unpack_from(view, at)
        content = bytes(view[at + _HEAD.size : at + _HEAD.size + length])
        if len(content) != length or crc32(content) != checksum:
            return
        yield content
        at += _HEAD.size + length


def replayed(written: bytes) -> SavedState | None:
    """The session that a journal tells of; None if it is empty, `Invalid` if it is something else."""
    if not written:
        return None
    records = frames(written)
    state = SavedState.read(next(records, b""))
    channels = {channel.number: channel for channel in state.channels}
    for content in records:
        try:
            change = _CHANGES.decode(content)
            channels[change.channel] = _changed(channels[change.channel], change)
        except (*DECODE_ERRORS, KeyError) as error:
            raise Invalid(f"this is not a saved session: {error!r}") from None
    return structs.replace(state, channels=list(channels.values()))


def _changed(channel: SavedChannel, change: Sent | Read) -> SavedChannel:
    """The channel after a change; its outbox is the same list."""
    if isinstance(change, Sent):
        if change.seq != channel.last_seq + 1:
            raise Invalid(f"this is not a saved session: message {change.seq} follows {channel.last_seq}")
        channel.outbox.append((change.name, change.body))
        return structs.replace(channel, last_seq=change.seq)
    del channel.outbox[: max(0, change.acked - (channel.last_seq - len(channel.outbox)))]
    return structs.replace(channel, received=change.received)


class SessionJournal:
    """Keeps one session's storage up to date."""

    def __init__(self, storage: SessionStorage, protocol: ClientProtocol, limits: Limits) -> None:
        self._storage = storage
        self._protocol = protocol
        self._bytes_max = limits.journal_bytes_max
        # By channel, what the journal tells of it: processed, and acknowledged.
        self._stored: dict[int, tuple[int, int]] = {}
        self._bytes = 0
        # Something could not be written whole: what follows it would never be read.
        self._is_torn = True
        self._is_closed = False

    def sent(self, channel: int, name: str, body: bytes) -> None:
        """A message is about to get its number: store both. If that fails, it must not be sent."""
        if self._is_torn or self._protocol.is_changed:
            self._snapshot()
        self._append(Sent(channel, self._protocol.channels.seat(channel).last_seq + 1, name, body))

    def keep(self) -> None:
        """Something is about to be written to a connection: store everything that it could tell the server."""
        protocol = self._protocol
        if self._is_closed or not protocol.session_id:
            return
        if self._is_torn or protocol.is_changed or self._bytes > self._bytes_max:
            self._snapshot()
            return
        for channel in protocol.channels:
            known = (channel.applied, channel.acked)
            if known != self._stored.get(channel.number):
                self._append(Read(channel.number, *known))
                self._stored[channel.number] = known

    def forget(self) -> None:
        if not self._is_closed:
            # What cannot be removed does no harm: the server will say that the session is over.
            with suppress(Exception):
                self._storage.remove()
            self.close()

    def close(self) -> None:
        """This process is done with the session; another may go on with it."""
        if not self._is_closed:
            self._is_closed = True
            self._storage.close()

    def _snapshot(self) -> None:
        self._storage.replace(frame(self._protocol.save()))
        self._is_torn = self._protocol.is_changed = False
        self._stored = {channel.number: (channel.applied, channel.acked) for channel in self._protocol.channels}
        self._bytes = 0

    def _append(self, change: Any) -> None:
        record = frame(msgspec.msgpack.encode(change))
        self._is_torn = True
        self._storage.append(record)
        self._is_torn = False
        self._bytes += len(record)
