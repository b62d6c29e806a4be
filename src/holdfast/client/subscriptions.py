"""What the server tells without being asked each time: of searches that go on, places in line, placements.

Notices are not repeated after a drop. So whoever follows something has a question, which is asked again after every
resume and every reset; its answer is all that was missed.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

from msgspec import Struct

from holdfast.client.events import Noticed
from holdfast.client.exchange import Exchange
from holdfast.client.protocol import RESET
from holdfast.core.errors import HoldfastError, Refused


class Subscription(ABC):
    """Something on the server, as far as we know it."""

    topic: ClassVar[str]

    def __init__(self, key: str, request: Struct, farewell: Struct | None = None) -> None:
        self.key = key
        self.request = request
        """The question: how is it now?"""
        self.farewell = farewell
        """What to say when nobody follows it any more."""
        self.is_asked = False
        self.is_told = False
        self.refusal: Refused | None = None
        """Why nothing more will be known of it."""

    @property
    def is_over(self) -> bool:
        """Whether it will stay as it is."""
        return False

    @abstractmethod
    def told(self, content: Any) -> None:
        """How it is now: the answer to the question."""

    def noticed(self, content: Any) -> None:
        """What has become of it, as a notice says; most of them say the same as the answer would."""
        self.told(content)

    def refused(self, refusal: Refused) -> None:
        """The question was refused; that is the end of it unless a follower knows better."""
        self.refusal = refusal


class News:
    """Who follows what."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._followers: list[Subscription] = []

    async def begin(self, follower: Subscription) -> None:
        """Follow something, and wait for the first answer; a refusal is raised."""
        await self._exchange.until(lambda: self._exchange.protocol.may_request)
        self._exchange.check()
        self.add(follower)
        try:
            self.ask(follower)
            await self._exchange.until(lambda: follower.is_told or follower.refusal is not None)
            if follower.refusal is not None:
                raise follower.refusal
        except BaseException:
            self.end(follower)
            raise

    def add(self, follower: Subscription) -> None:
        """Follow something of which we know how it is."""
        if not follower.is_over:
            self._followers.append(follower)

    def ask(self, follower: Subscription) -> None:
        """Ask how it is now; the answer comes in its own time."""

        def answered(result: Any, error: HoldfastError | None) -> None:
            follower.is_asked = False
            if follower not in self._followers:
                return
            if error is None:
                follower.told(result)
                follower.is_told = True
            elif isinstance(error, Refused) and error.code != RESET:
                # After a reset the welcome follows at once, and with it the same question.
                follower.refused(error)
            self._drop_what_is_over()

        follower.is_asked = True
        self._exchange.post(follower.request, follower, answered)

    def end(self, follower: Subscription) -> None:
        """Follow it no more, and let the server know unless somebody else does."""
        if follower in self._followers:
            self._followers.remove(follower)
            if follower.farewell is not None and not self._who(follower.topic, follower.key):
                self._exchange.post(follower.farewell, follower)

    # From the session

    def welcomed(self) -> None:
        """The session is back: what would have been noticed in the meantime is lost."""
        self._drop_what_is_over()
        for follower in self._followers:
            self.ask(follower)

    def noticed(self, event: Noticed) -> None:
        """A notice came; one that nobody follows any more is nothing."""
        for follower in self._who(event.topic, event.key):
            follower.noticed(event.body)
        self._drop_what_is_over()

    def _who(self, topic: str, key: str) -> list[Subscription]:
        return [follower for follower in self._followers if (follower.topic, follower.key) == (topic, key)]

    def _drop_what_is_over(self) -> None:
        self._followers = [each for each in self._followers if not each.is_over and each.refusal is None]
