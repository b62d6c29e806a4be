"""Writing to a store: batches that are whole, conditions that fence, and outcomes that are certain or `Unknown`.

The batches of a commit go to NATS as one atomic batch, or as few as its bounds allow. If NATS refuses it, because a key
has another revision, the keys are read back, the batches in conflict are left out, and the others are sent again. A
refusal does not always mean a conflict: an absent key may have a mark, and another write of the key may be in flight,
whose outcome nobody knows yet. Both are found by reading, and the write is repeated.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core.limits import NatsLimits
from holdfast.stores.nats.link import ApiError, NatsLink, NoAnswer
from holdfast.stores.nats.messages import (
    TAKEN,
    TOO_MANY,
    BatchIds,
    NatsMessage,
    PublishAck,
    SavedMessage,
    in_one_batch,
    messages_of,
)
from holdfast.stores.nats.reading import NatsReader
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import ABSENT, Batch, Full, Outcome, RevisionConflict, Unavailable, Unknown

_FULL = frozenset({10023, 10028, 10047, 10077, 10122})
# While another write is in flight.
_PAUSES_S = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)


class _WriteRefused(Exception):
    """A condition does not hold, or may not."""


class NatsWriter:
    """Writes what a store is to have."""

    def __init__(self, link: NatsLink, reader: NatsReader, subjects: Subjects, limits: NatsLimits) -> None:
        self._link = link
        self._reader = reader
        self._subjects = subjects
        self._limits = limits
        self._ids = BatchIds()
        self._parts: dict[str, int] = {}
        """The number of parts of the values that have several, as far as they were read or written here."""
        self._newest = 0
        """The highest revision that was written here."""

    def read(self, key: str, parts: int) -> None:
        """A value was read that has this many parts."""
        if parts > 1:
            self._parts[key] = parts

    async def write(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Write the batches without a conflict."""
        outcomes: dict[int, Outcome] = {}
        # Nothing is sent later: who has given up, and reads back, must not be overtaken by it.
        deadline = asyncio.get_running_loop().time() + self._limits.nats_answer_s
        for portion in self._portions(batches):
            try:
                await self._write(portion, outcomes, deadline)
            except Unavailable as error:
                if any(isinstance(outcome, list) and outcome for outcome in outcomes.values()):
                    raise Unknown(f"some of it is written: {error}") from error
                raise
        return [outcomes.get(number, []) for number in range(len(batches))]

    def _portions(self, batches: Sequence[Batch]) -> list[dict[int, Batch]]:
        """The batches by their numbers, as many together as go into one atomic batch."""
        portions: list[dict[int, Batch]] = []
        count = size = 0
        for number, batch in enumerate(batches):
            if not batch:
                continue
            batch_size = sum(len(write.value or b"") for write in batch)
            fits = count + len(batch) <= self._limits.nats_batch_writes_max
            if not portions or not fits or size + batch_size > self._limits.nats_batch_bytes_max:
                portions.append({})
                count = size = 0
            portions[-1][number] = batch
            count += len(batch)
            size += batch_size
        return portions

    async def _write(self, portion: dict[int, Batch], outcomes: dict[int, Outcome], deadline: float) -> None:
        expected = {write.key: write.revision for batch in portion.values() for write in batch}
        loop = asyncio.get_running_loop()
        for pause_s in (*_PAUSES_S, *[_PAUSES_S[-1]] * 5):
            if loop.time() > deadline:
                raise Unavailable("NATS takes too long")
            try:
                outcomes |= await self._send(portion, expected)
            except _WriteRefused:
                found = await self._reader.current(list(expected))
                self._check_age(found, expected)
                for number, batch in list(portion.items()):
                    conflict = _conflict_of(batch, found)
                    if conflict is not None:
                        outcomes[number] = conflict
                        del portion[number]
                if not portion:
                    return
                known = {write.key: _seq(found[write.key]) for batch in portion.values() for write in batch}
                if known == {key: expected[key] for key in known}:
                    await asyncio.sleep(pause_s)
                expected = known
            else:
                return
        raise Unavailable("another write of the same keys does not come to an end")

    def _check_age(self, found: Mapping[str, SavedMessage | None], expected: Mapping[str, int]) -> None:
        """A server that is cut off from the others still answers reads for a while: that is no conflict."""
        for key, saved in found.items():
            if saved is not None and saved.seq < expected[key] <= self._newest:
                raise Unavailable(f"NATS has an older {key} than it acknowledged; is one of its servers cut off?")

    async def _send(self, portion: dict[int, Batch], expected: Mapping[str, int]) -> dict[int, Outcome]:
        messages: list[NatsMessage] = []
        places: dict[str, int] = {}
        parts: dict[str, int] = {}
        for batch in portion.values():
            for write in batch:
                places[write.key] = len(messages)
                former = self._parts.get(write.key, 1)
                messages += messages_of(
                    write,
                    expected[write.key],
                    former,
                    subjects=self._subjects,
                    payload_bytes_max=self._link.payload_bytes_max,
                    deleted_s=self._limits.nats_deleted_s,
                )
                parts[write.key] = len(messages) - places[write.key] if write.value is not None else 1
        last = await self._publish(in_one_batch(messages, next(self._ids)))
        for key, count in parts.items():
            self._parts.pop(key, None)
            self.read(key, count)
        first = last - len(messages) + 1
        return {
            number: [ABSENT if write.value is None else first + places[write.key] for write in batch]
            for number, batch in portion.items()
        }

    async def _publish(self, messages: Sequence[NatsMessage]) -> int:
        """The sequence number of the last message, once NATS has saved them."""
        for subject, payload, headers in messages[:-1]:
            await self._link.publish(subject, payload, headers)
        subject, payload, headers = messages[-1]
        answer = await self._link.request(subject, payload, headers)
        try:
            ack = msgspec.json.decode(answer.data, type=PublishAck)
        except msgspec.MsgspecError as error:
            raise NoAnswer(f"NATS gave an answer that is none: {error}") from error
        if ack.error is not None:
            raise self._refusal(ack.error, len(messages))
        self._newest = max(self._newest, ack.seq)
        return ack.seq

    def _refusal(self, error: ApiError, count: int) -> Exception:
        """What an error of NATS means; in each of these cases nothing was written."""
        code = error.err_code
        if code in TAKEN:
            return _WriteRefused()
        if code == TOO_MANY:
            return Unavailable(
                f"a room needs {count} values in one batch, more than the NATS server takes: add"
                " `limits { batch { max_msgs: 20000 } }` to the `jetstream` of its configuration, and restart it"
            )
        kind = Full if code in _FULL else Unavailable
        return kind(f"NATS does not save: {error.description} ({code})")


def _conflict_of(batch: Batch, found: Mapping[str, SavedMessage | None]) -> RevisionConflict | None:
    for key, _, expected in batch:
        saved = found[key]
        revision = saved.revision if saved is not None else ABSENT
        if revision != expected:
            return RevisionConflict(key, expected, revision)
    return None


def _seq(saved: SavedMessage | None) -> int:
    """The revision in the terms of NATS: a mark has one."""
    return saved.seq if saved is not None else 0
