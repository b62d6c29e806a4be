"""What a saved session writes, and when: everything is stored before the server hears of it.

A journal is a snapshot of the session and the changes since, each in a frame of its own (length, checksum, content), so
that a process killed in the middle of a write leaves a tail that is recognised and passed over.

    what                          is stored
    a message that is sent        by `send`, with its number, before it can be written to a connection
    how far messages were read    before an acknowledgement or a hello tells the server
    token, seats, resyncs         before anything is written after the welcome or the frame that brought them
    what the server acknowledged  before anything is written after it: a server that forgets it must be told so
"""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from zlib import crc32

import msgspec
from msgspec import Struct, structs

from holdfast.client.protocol import ClientProtocol
from holdfast.client.saved import SavedChannel, SavedState
from holdfast.client.storage import SessionFile, SessionStorage
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
    channels = {channel.number: _Progress(channel) for channel in state.channels}
    for content in records:
        try:
            change = _CHANGES.decode(content)
            channels[change.channel].apply(change)
        except (*DECODE_ERRORS, KeyError) as error:
            raise Invalid(f"this is not a saved session: {error!r}") from None
    return structs.replace(state, channels=[channel.saved() for channel in channels.values()])


class _Progress:
    """A channel of a snapshot, and what became of it."""

    def __init__(self, channel: SavedChannel) -> None:
        self._channel = channel
        self._received = channel.received
        self._last_seq = channel.last_seq
        self._outbox = list(channel.outbox)

    def apply(self, change: Sent | Read) -> None:
        match change:
            case Sent():
                if change.seq != self._last_seq + 1:
                    raise Invalid(f"this is not a saved session: message {change.seq} follows {self._last_seq}")
                self._last_seq = change.seq
                self._outbox.append((change.name, change.body))
            case Read():
                self._received = change.received
                del self._outbox[: max(0, change.acked - (self._last_seq - len(self._outbox)))]

    def saved(self) -> SavedChannel:
        return structs.replace(self._channel, received=self._received, last_seq=self._last_seq, outbox=self._outbox)


class SessionJournal:
    """Keeps one session's storage up to date."""

    def __init__(self, storage: SessionStorage, limits: Limits) -> None:
        self._storage = storage
        self._bytes_max = limits.journal_bytes_max
        self._protocol: ClientProtocol | None = None
        # By channel, what the journal tells of it: processed, and acknowledged.
        self._stored: dict[int, tuple[int, int]] = {}
        self._bytes = 0
        # Something could not be written whole: what follows it would never be read.
        self._is_torn = True
        self._is_closed = False

    @classmethod
    def at(cls, place: "str | os.PathLike[str] | SessionStorage", limits: Limits) -> "SessionJournal":
        """In a file, or in a storage of the program's own."""
        return cls(SessionFile(place) if isinstance(place, str | os.PathLike) else place, limits)

    def read(self) -> SavedState | None:
        """The session that was saved here, if there is one."""
        try:
            return replayed(self._storage.read())
        except BaseException:
            self.close()
            raise

    def follow(self, protocol: ClientProtocol) -> None:
        """Keep this session from now on."""
        self._protocol = protocol

    def sent(self, channel: int, name: str, body: bytes) -> None:
        """A message is about to get its number: store both. If that fails, it must not be sent."""
        assert self._protocol is not None
        if self._is_torn or self._protocol.is_changed:
            self._snapshot()
        self._append(Sent(channel, self._protocol.channels.seat(channel).last_seq + 1, name, body))

    def keep(self) -> None:
        """Something is about to be written to a connection: store everything that it could tell the server."""
        protocol = self._protocol
        if protocol is None or self._is_closed or not protocol.session_id:
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
        """The session is over."""
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
        assert self._protocol is not None
        state = frame(self._protocol.save())
        self._storage.replace(state)
        self._is_torn = self._protocol.is_changed = False
        self._stored = {channel.number: (channel.applied, channel.acked) for channel in self._protocol.channels}
        self._bytes = 0

    def _append(self, change: Any) -> None:
        record = frame(msgspec.msgpack.encode(change))
        self._is_torn = True
        self._storage.append(record)
        self._is_torn = False
        self._bytes += len(record)
