"""Reading a store: one key through the leader of its stream, and a list as of one moment.

A list is read by a consumer, which delivers the last message of each subject and then whatever is written meanwhile, in
order: once it has delivered all there is, the result is the store at that moment. The stream's leader is asked before,
how far it is: the consumer may be at a server that lags behind, and what it delivers may end in the middle of a batch.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.limits import NatsLimits
from holdfast.stores.nats.link import ApiAnswer, ApiError, NatsLink, NoAnswer
from holdfast.stores.nats.messages import GetAnswer, SavedMessage
from holdfast.stores.nats.subjects import Subjects
from holdfast.stores.port import Entry, StoreError, Unavailable

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

_NOT_FOUND = 10037
# Torn only while it is being overwritten: what overwrites it is there at once.
_TORN_MAX = 10
_PULL_MESSAGES = 1000
# If nobody reads on, NATS forgets the consumer after this.
_CONSUMER_KEPT_NS = 30 * 10**9
# What a list that fails is tried again for, in times that one answer may take: NATS needs as long to replace a server.
_LIST_ANSWERS = 10
_LIST_AGAIN_S = 0.05
# A consumer that lags behind its leader catches up within some milliseconds; a batch is complete sooner.
_LAG_S = 0.002
_ROUNDS_MAX = 1000


class _State(msgspec.Struct):
    last_seq: int


class StreamInfo(msgspec.Struct):
    """What a list needs to know of the stream."""

    state: _State = msgspec.field(default_factory=lambda: _State(0))
    error: ApiError | None = None


class Torn(Unavailable):
    """The parts of a value are not of one batch."""


class NatsReader:
    """Reads what a store has."""

    def __init__(self, link: NatsLink, subjects: Subjects, limits: NatsLimits) -> None:
        self._link = link
        self._subjects = subjects
        self._limits = limits
        self._reads = asyncio.Semaphore(limits.nats_reads_max)

    async def last(self, subject: str) -> SavedMessage | None:
        """The last message of a subject, or of all that match it, as the stream's leader has it."""
        async with self._reads:
            body = {"last_by_subj": subject}
            answer = await self._link.ask(
                f"STREAM.MSG.GET.{self._subjects.stream}", body, GetAnswer, again_s=self._limits.nats_again_s
            )
        if answer.error is not None and answer.error.err_code != _NOT_FOUND:
            raise Unavailable(f"NATS cannot read: {answer.error.description}")
        return answer.saved()

    async def current(self, keys: list[str]) -> dict[str, SavedMessage | None]:
        """The first message of each key, a mark too."""
        found = await asyncio.gather(*(self.last(self._subjects.of_key(key)) for key in keys))
        return dict(zip(keys, found, strict=True))

    async def get(self, key: str) -> tuple[Entry, int] | None:
        """The entry of a key and the number of its parts."""
        for _ in range(_TORN_MAX):
            first = await self.last(self._subjects.of_key(key))
            if first is None or first.is_mark:
                return None
            parts = [self._subjects.of_part(key, number) for number in range(1, first.parts)]
            others = await asyncio.gather(*map(self.last, parts))
            if all(part is not None and part.batch == first.batch for part in others):
                value = b"".join([first.value, *(part.value for part in others if part is not None)])
                return Entry(key, value, first.seq), first.parts
        raise Torn(f"{key} is overwritten more quickly than it can be read")

    async def list(self, path: str) -> list[tuple[Entry, int]]:
        """Every entry at the path with the number of its parts, sorted."""
        wanted = self._subjects.at(path)
        if await self._newest(wanted) == 0:
            return []
        loop = asyncio.get_running_loop()
        deadline: float | None = None
        while True:
            listing = _Listing(self._link, self._subjects, self._limits, wanted)
            try:
                return sorted(await listing.read(self._newest))
            except (NoAnswer, Unavailable) as error:
                # The consumer is at one of the servers, perhaps at one that has just gone. A long list may take longer.
                if deadline is None:
                    deadline = loop.time() + _LIST_ANSWERS * self._limits.nats_answer_s
                elif loop.time() >= deadline:
                    raise Unavailable(f"NATS does not get to the end of a list: {error}") from error
                await asyncio.sleep(_LIST_AGAIN_S)

    async def _newest(self, wanted: Sequence[str]) -> int:
        found = await asyncio.gather(*map(self.last, wanted))
        return max((each.seq for each in found if each is not None), default=0)


class _Listing:
    """One list, from its consumer."""

    def __init__(self, link: NatsLink, subjects: Subjects, limits: NatsLimits, wanted: list[str]) -> None:
        self._link = link
        self._subjects = subjects
        self._limits = limits
        self._wanted = wanted
        self._name = f"list-{secrets.token_urlsafe(9)}"
        self._inbox = link.new_inbox()
        self._first: dict[str, SavedMessage] = {}
        self._parts: dict[tuple[str, int], SavedMessage] = {}
        self._delivered = 0
        self._newest = 0
        self._batch_ends_at = 0

    async def read(self, newest: Callable[[Sequence[str]], Awaitable[int]]) -> list[tuple[Entry, int]]:
        config = {
            "name": self._name,
            "filter_subjects": self._wanted,
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _CONSUMER_KEPT_NS,
        }
        stream = self._subjects.stream
        inbox = await self._link.subscribe(self._inbox)
        try:
            made = await self._link.ask(
                f"CONSUMER.CREATE.{stream}.{self._name}", {"stream_name": stream, "config": config}, ApiAnswer
            )
            if made.error is not None:
                raise Unavailable(f"NATS cannot list: {made.error.description}")
            for _ in range(_ROUNDS_MAX):
                if await self._catch_up(inbox, newest):
                    return self._entries()
                await asyncio.sleep(_LAG_S)
            raise Unavailable("more is written than can be read")
        finally:
            with suppress(Exception):  # the link is closed for good
                await inbox.unsubscribe()
            with suppress(StoreError):  # NATS forgets it by itself
                await self._link.publish(f"$JS.API.CONSUMER.DELETE.{stream}.{self._name}", b"")

    async def _catch_up(self, inbox: "Subscription", newest: Callable[[Sequence[str]], Awaitable[int]]) -> bool:
        """Read all that there is; whether that is all up to now, and no batch is half of it."""
        info = await self._link.ask(
            f"STREAM.INFO.{self._subjects.stream}", {}, StreamInfo, again_s=self._limits.nats_again_s
        )
        last = await newest(self._wanted)
        await self._pull(inbox)
        return last <= self._newest and self._batch_ends_at <= max(info.state.last_seq, self._newest)

    async def _pull(self, inbox: "Subscription") -> None:
        """All that there is now."""
        bytes_max = max(self._limits.nats_read_bytes_max, 2 * self._link.payload_bytes_max)
        request = {"batch": _PULL_MESSAGES, "max_bytes": bytes_max, "no_wait": True}
        while True:
            await self._link.publish(
                f"$JS.API.CONSUMER.MSG.NEXT.{self._subjects.stream}.{self._name}",
                msgspec.json.encode(request),
                reply=self._inbox,
            )
            for _ in range(_PULL_MESSAGES):
                try:
                    message = await inbox.next_msg(timeout=self._limits.nats_answer_s)
                except TimeoutError:
                    raise NoAnswer("NATS does not send a list") from None
                status = (message.headers or {}).get("Status")
                if status in {"404", "408"}:
                    return
                if status is not None:
                    # The bytes of this request are used up.
                    break
                self._take(message)

    def _take(self, message: "Msg") -> None:
        numbers = message.metadata.sequence
        if numbers.consumer != self._delivered + 1:
            raise Unavailable("the link to NATS was lost in the middle of a list")
        self._delivered = numbers.consumer
        saved = SavedMessage(numbers.stream, message.data, message.headers or {})
        self._newest = max(self._newest, saved.seq)
        self._batch_ends_at = max(self._batch_ends_at, saved.batch_ends_at)
        key = self._subjects.key_in(message.subject)
        if key is None:
            self._parts[self._subjects.part_in(message.subject)] = saved
        elif saved.is_mark:
            self._first.pop(key, None)
        else:
            self._first[key] = saved

    def _entries(self) -> list[tuple[Entry, int]]:
        entries = []
        for key, first in self._first.items():
            values = [first.value]
            for number in range(1, first.parts):
                part = self._parts.get((key, number))
                if part is None or part.batch != first.batch:
                    raise Torn(f"{key} is overwritten more quickly than it can be read")
                values.append(part.value)
            entries.append((Entry(key, b"".join(values), first.seq), first.parts))
        return entries
