"""Writes as messages, and messages as values.

A message may be as large as the NATS servers allow, 1 MiB unless they are told otherwise. A larger value is split: its
first part under the key's own subject, with the number of parts, the others beside it, in the same atomic batch. Only
the first is conditional. Parts belong together if they are of one batch.

JetStream deletes a message only without a condition, so a deleted key gets an empty message, a mark. The mark has a
revision, which the next value of the key replaces; without one, it is gone after a while.
"""

import base64
import itertools
import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from holdfast.stores.nats.link import ApiError
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import ABSENT, Write

EXPECTED = "Nats-Expected-Last-Subject-Sequence"
BATCH = "Nats-Batch-Id"
POSITION = "Nats-Batch-Sequence"
COMMIT = "Nats-Batch-Commit"
PARTS = "Holdfast-Parts"
AFTER = "Holdfast-After"
"""How many messages of the batch come after this one."""
WRONG_REVISION = 10071
# Another write of the key is being replicated: which of the two is written is not known yet.
IN_FLIGHT = 10164
TAKEN = frozenset({WRONG_REVISION, IN_FLIGHT})
"""The errors of a condition that does not hold, or may not."""
TOO_MANY = 10199
"""The error of a batch with more messages than the server takes."""
_OPERATION = "KV-Operation"
_DELETED = "DEL"
_EXPIRED = "Nats-Marker-Reason"
_TTL = "Nats-TTL"
# Nobody needs the mark of a part: the condition is at the first one.
_PART_DELETED_S = 1
# The server counts headers as part of the payload; those of a message here have some 200 bytes.
HEADERS_BYTES_MAX = 4096


class NatsMessage(NamedTuple):
    """What is published."""

    subject: str
    payload: bytes
    headers: dict[str, str]

    @property
    def size(self) -> int:
        return len(self.payload) + len(self.subject) + sum(map(len, self.headers.values()))


class PublishAck(msgspec.Struct, frozen=True):
    """The answer to a message, or to the last one of a batch."""

    seq: int = 0
    error: ApiError | None = None


class SavedMessage(NamedTuple):
    """A message in the stream."""

    seq: int
    value: bytes
    headers: Mapping[str, str]

    @property
    def is_mark(self) -> bool:
        # The second is NATS's own, in a stream that leaves marks when a message has had its time.
        return _OPERATION in self.headers or _EXPIRED in self.headers

    @property
    def revision(self) -> int:
        """The revision of the key in the port's terms: a mark is an absent key."""
        return ABSENT if self.is_mark else self.seq

    @property
    def parts(self) -> int:
        return int(self.headers.get(PARTS, 1))

    @property
    def batch(self) -> str:
        return self.headers.get(BATCH, "")

    @property
    def batch_ends_at(self) -> int:
        """The sequence number of the last message of its batch."""
        return self.seq + int(self.headers.get(AFTER, 0))


class _StoredMessage(msgspec.Struct):
    seq: int
    data: str = ""
    hdrs: str = ""


class GetAnswer(msgspec.Struct):
    """The answer to a request for one message."""

    message: _StoredMessage | None = None
    error: ApiError | None = None

    def saved(self) -> SavedMessage | None:
        if self.message is None:
            return None
        headers = _headers(base64.b64decode(self.message.hdrs))
        return SavedMessage(self.message.seq, base64.b64decode(self.message.data), headers)


def _headers(raw: bytes) -> dict[str, str]:
    lines = raw.decode("latin-1").split("\r\n")[1:]
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}


class BatchIds:
    """Names for batches that no other server uses."""

    def __init__(self) -> None:
        self._life = secrets.token_urlsafe(12)
        self._count = itertools.count(1)

    def __next__(self) -> str:
        return f"{self._life}.{next(self._count)}"


def messages_of(
    write: Write, expected: int, former_parts: int, *, subjects: Subjects, payload_bytes_max: int, deleted_s: int
) -> Iterator[NatsMessage]:
    """The messages of one write, the conditional one first."""
    size = payload_bytes_max - HEADERS_BYTES_MAX
    condition = {EXPECTED: str(expected)}
    subject = subjects.of_key(write.key)
    parts = 1
    if write.value is None:
        yield NatsMessage(subject, b"", condition | mark_of_deleted(deleted_s))
    elif len(write.value) <= size:
        yield NatsMessage(subject, write.value, condition)
    else:
        parts = -(-len(write.value) // size)
        yield NatsMessage(subject, write.value[:size], condition | {PARTS: str(parts)})
        for number in range(1, parts):
            yield NatsMessage(subjects.of_part(write.key, number), write.value[number * size : (number + 1) * size], {})
    for number in range(parts, former_parts):
        yield NatsMessage(subjects.of_part(write.key, number), b"", mark_of_deleted(_PART_DELETED_S))


def mark_of_deleted(kept_s: int) -> dict[str, str]:
    """The headers of a mark that is kept for so long."""
    return {_OPERATION: _DELETED, _TTL: f"{kept_s}s"}


def in_one_batch(messages: Sequence[NatsMessage], batch: str) -> list[NatsMessage]:
    """The messages as one atomic batch; a single one needs none."""
    if len(messages) == 1:
        return list(messages)
    together = []
    for position, (subject, payload, headers) in enumerate(messages, 1):
        own = {BATCH: batch, POSITION: str(position), AFTER: str(len(messages) - position)}
        if position == len(messages):
            own[COMMIT] = "1"
        together.append(NatsMessage(subject, payload, headers | own))
    return together
