"""Keeps a client connected: dial, say hello, listen, and after a loss wait with jitter and dial again."""

import asyncio
import logging
from random import Random
from typing import NamedTuple, Protocol

from holdfast.client.link import Dial, Link
from holdfast.client.protocol import ClientProtocol, Closed, Event
from holdfast.core.backoff import backoff_s
from holdfast.core.errors import ProtocolError, SessionEnded
from holdfast.core.limits import Limits
from holdfast.core.reasons import CLOSE_CODES, Advice, Reason, advice
from holdfast.transports.port import Dialect, DialError, TransportLimits

log = logging.getLogger("holdfast.client")


class Owner(Protocol):
    """Who is told what happens: the session."""

    url: str

    def happened(self, event: Event) -> None:
        """The server said something."""

    def heard(self) -> None:
        """A payload has been dealt with."""

    def dropped(self) -> None:
        """A connection that was welcomed is gone; another will follow."""

    def ended(self, error: SessionEnded) -> None:
        """There will be no other connection."""


class _End(NamedTuple):
    was_welcome: bool
    closed: Closed


class Connector:
    """One task, one connection at a time."""

    def __init__(  # noqa: PLR0913 - one call site, all by keyword
        self,
        owner: Owner,
        protocol: ClientProtocol,
        *,
        dial: Dial,
        limits: Limits,
        give_up_s: float,
        random: Random,
    ) -> None:
        self._owner = owner
        self._protocol = protocol
        self._dial = dial
        self._limits = limits
        self._give_up_s = give_up_s
        self._random = random
        self._link: Link | None = None
        self._closed: Closed | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Connect for the first time. An address where nobody answers is an error here, and not tried again."""
        self._opening = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._stay_connected(), name=f"holdfast session at {self._owner.url}")
        try:
            await asyncio.shield(self._opening)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Let the last connection end, and make no other."""
        if self._task is None:
            return
        if self._link is not None:
            await self._link.ended()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def send(self, payload: bytes) -> None:
        """Write to the connection, if there is one."""
        if self._link is not None:
            self._link.send(payload)

    def close(self, code: int, reason: str) -> None:
        """End the connection in order, if there is one."""
        if self._link is not None:
            self._link.close(code, reason)

    def cut(self) -> None:
        """Break the connection, as a bad network would: for tests and demos."""
        if self._link is not None:
            self._link.abort()

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        attempt, lost_at = 0, loop.time()
        while True:
            end = await self._one_connection()
            what = advice(end.closed.code)
            if end.was_welcome:
                attempt, lost_at = 0, loop.time()
                self._owner.dropped()
            if what is not Advice.RESUME:
                self._end(SessionEnded(end.closed.reason or str(end.closed.code), end.closed.message))
                return
            if loop.time() - lost_at > self._give_up_s:
                self._end(SessionEnded("unreachable", f"{self._owner.url} did not answer for {self._give_up_s:g} s"))
                return
            await asyncio.sleep(backoff_s(attempt, self._random.random(), retry_after_s=end.closed.retry_after_s))
            attempt += 1

    def _end(self, error: SessionEnded) -> None:
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(error)
        self._owner.ended(error)

    async def _one_connection(self) -> _End:
        """One link, from dial to end."""
        link = Link(self._received)
        self._closed = None
        dialect = Dialect(self._protocol.codec.name, self._protocol.codec.text)
        try:
            await self._dial(link, self._owner.url, dialect, self._transport_limits())
        except DialError as error:
            return self._not_answered(error)
        self._link = link
        link.send(self._protocol.hello())
        watchdog = asyncio.create_task(self._watch(link))
        try:
            code, reason = await link.ended()
        finally:
            watchdog.cancel()
            link.abort()
            self._link = None
        was_welcome = self._protocol.is_welcome
        self._protocol.lost()
        return _End(was_welcome, self._closed or Closed(code, reason, "", 0.0))

    def _not_answered(self, error: DialError) -> _End:
        if self._opening is not None and not self._opening.done():
            self._opening.set_exception(error)
            code = CLOSE_CODES[Reason.ENDED]
        else:
            code = CLOSE_CODES[Reason.DROPPED if error.retry else Reason.PROTOCOL]
        return _End(was_welcome=False, closed=Closed(code, "unreachable", str(error), 0.0))

    async def _watch(self, link: Link) -> None:
        """A server that says nothing for too long is gone, whatever the socket says."""
        loop = asyncio.get_running_loop()
        while True:
            terms = self._protocol.terms
            is_welcome = terms is not None and self._protocol.is_welcome
            silence_s = terms.silence_s if terms is not None and is_welcome else self._limits.auth_s
            wait_s = link.heard_at + silence_s - loop.time()
            if wait_s <= 0:
                link.abort()
                return
            await asyncio.sleep(wait_s)

    def _transport_limits(self) -> TransportLimits:
        return TransportLimits(
            payload_bytes_max=self._limits.payload_bytes_max,
            handshake_s=self._limits.hello_s,
            close_s=self._limits.close_s,
            write_high_bytes=self._limits.window_bytes_max,
        )

    def _received(self, link: Link, payload: bytes) -> None:
        if link is not self._link:
            return
        try:
            for event in self._protocol.receive(payload):
                if isinstance(event, Closed):
                    self._closed = event
                self._owner.happened(event)
        except ProtocolError as error:
            log.warning("the server broke the protocol: %s", error)
            self._closed = Closed(CLOSE_CODES[error.reason], error.reason, str(error), 0.0)
            link.close(1002, error.reason)
        if self._opening is not None and not self._opening.done() and self._protocol.is_welcome:
            self._opening.set_result(None)
        self._owner.heard()
