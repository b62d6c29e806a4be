"""Asks: messages of one seat whose sender waits for the room's answer."""

import asyncio
from typing import Any

from msgspec import Raw, Struct

from holdfast.core.errors import HoldfastError, Reset, Throttled, refusal
from holdfast.core.messages import Message, MessageRefused


class RawAnswer(Struct):
    """A `MessageAnswered`, as it came: its body is decoded when its type is known."""

    seq: int
    type: str
    body: Raw = Raw(b"")


class Asks:
    """The asks that were sent and not answered, by the number of their message."""

    def __init__(self, unanswered_max: int) -> None:
        self._unanswered_max = unanswered_max
        # None: nobody waits any more, and the answer will be dropped.
        self._unanswered: dict[int, asyncio.Future[Message | None] | None] = {}

    def check(self) -> None:
        """`Throttled` if there are too many."""
        if len(self._unanswered) >= self._unanswered_max:
            raise Throttled(f"{len(self._unanswered)} asks have no answer yet: wait for some")

    async def answer_to(self, number: int) -> Any:
        """The answer to the message that was just sent with this number."""
        answer: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
        self._unanswered[number] = answer
        try:
            return await answer
        except asyncio.CancelledError:
            if number in self._unanswered:
                self._unanswered[number] = None
            raise

    def answered(self, number: int, message: Message | None) -> bool:
        """An answer came; False if it is to a message that this process has not asked with."""
        return self._settle(number, message, None)

    def refused(self, refused: MessageRefused) -> bool:
        """The same for a refusal."""
        return self._settle(refused.seq, None, refusal(refused.code, refused.message))

    def lost(self, applied: int, accepted: int, reason: str) -> None:
        """Answers were lost: of messages that the server had applied, perhaps also of those that it had received."""
        for number in [number for number in self._unanswered if number <= accepted]:
            self._settle(number, None, Reset(reason))
            if number > applied:
                # Its answer may still come.
                self._unanswered[number] = None

    def end(self, error: HoldfastError) -> None:
        """There will be no more answers."""
        for number in list(self._unanswered):
            self._settle(number, None, error)

    def _settle(self, number: int, message: Message | None, error: HoldfastError | None) -> bool:
        if number not in self._unanswered:
            return False
        answer = self._unanswered.pop(number)
        if answer is not None and not answer.done():
            if error is None:
                answer.set_result(message)
            else:
                answer.set_exception(error)
        return True
