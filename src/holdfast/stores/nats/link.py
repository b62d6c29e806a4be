"""A connection to NATS: requests with their answers, over one inbox, and what becomes of them when the link is lost.

The client library reconnects by itself, but lets a request wait for its whole time; here the loss of the link ends all
that wait, because no answer will come. What was sent may be carried out nevertheless.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.core.limits import NatsLimits
from holdfast.logs import get_logger
from holdfast.stores.nats.address import NatsAddress
from holdfast.stores.port import Broken, Unavailable, Unknown

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

log = get_logger("holdfast.stores")

T = TypeVar("T", bound=msgspec.Struct)

# With a longer silence than this many pings, the link is given up.
_PINGS_MAX = 2
# A server that answers pings, but this many requests in a row not, has lost its cluster: another one may have it.
_SILENT_MAX = 2
_NO_RESPONDERS = "503"
_CANCEL_AGAIN_S = 0.05


class ApiError(msgspec.Struct, frozen=True):
    """Why JetStream refused a request."""

    err_code: int = 0
    description: str = ""


class ApiAnswer(msgspec.Struct):
    """What every answer of JetStream's API may have."""

    error: ApiError | None = None


class NoAnswer(Unknown):
    """The request was sent, and no answer came."""


class NoResponder(Unavailable):
    """Nobody listens for such requests: no JetStream, no such stream, or it is without a leader for now."""


class NatsLink:
    """One connection, from `open` to `close`."""

    def __init__(self, address: NatsAddress, limits: NatsLimits) -> None:
        self._address = address
        self._limits = limits
        self._client: Client | None = None
        self._inbox = ""
        self._count = 0
        self._waiting: dict[str, asyncio.Future[Msg]] = {}
        self._silent = 0
        self._last_error: Exception | None = None
        self._is_closing = False
        self.failure: asyncio.Future[Broken] | None = None
        self.on_reconnect: list[Callable[[], None]] = []
        """The link was lost and is back."""

    async def open(self) -> None:
        """Connect to one of the servers, or `Unavailable`."""
        from nats.aio.client import Client  # noqa: PLC0415 - an optional dependency

        self.failure = asyncio.get_running_loop().create_future()
        client = self._client = Client()
        try:
            await self._connect(client)
            self._inbox = client.new_inbox()
            await self.subscribe(f"{self._inbox}.*", self._answered)
        except BaseException:
            await self.close()
            raise

    async def _connect(self, client: "Client") -> None:
        from nats.errors import Error  # noqa: PLC0415 - an optional dependency

        connecting = asyncio.create_task(client.connect(**self._options()))
        try:
            await asyncio.wait([connecting], timeout=self._limits.nats_connect_s)
            is_late = not connecting.done()
        finally:
            # Between two attempts the library takes a cancellation for that of a task of its own, and goes on.
            while not connecting.done():
                connecting.cancel()
                await asyncio.wait([connecting], timeout=_CANCEL_AGAIN_S)
        if is_late:
            why = f" ({self._last_error})" if str(self._last_error or "") else ""
            raise Unavailable(f"no NATS server lets this one in{why}; check that it runs, and its address")
        try:
            connecting.result()
        except (Error, OSError) as error:
            raise Unavailable(f"NATS does not let this server in: {error!r}") from error

    def _options(self) -> dict[str, Any]:
        limits, address = self._limits, self._address
        options: dict[str, Any] = {
            "servers": list(address.servers),
            "name": "holdfast",
            "ping_interval": limits.nats_ping_s,
            "max_outstanding_pings": _PINGS_MAX,
            "max_reconnect_attempts": -1,
            "reconnect_time_wait": limits.nats_reconnect_s,
            "connect_timeout": limits.nats_connect_s,
            "flush_timeout": limits.nats_answer_s,
            "pending_size": limits.nats_buffer_bytes_max,
            "error_cb": self._failed,
            "disconnected_cb": self._disconnected,
            "reconnected_cb": self._reconnected,
            "closed_cb": self._closed,
        }
        if address.credentials:
            options["user_credentials"] = address.credentials
        if address.is_encrypted or address.ca:
            context = ssl.create_default_context(cafile=address.ca or None)
            if address.certificate:
                context.load_cert_chain(address.certificate, address.key or None)
            options["tls"] = context
        return options

    async def close(self) -> None:
        self._is_closing = True
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):  # whatever it is, the connection is not used any more
                await client.close()
        self._lose()

    # What the server said of itself

    @property
    def server(self) -> Mapping[str, Any]:
        """The server's first words: its version, and what it is."""
        return self._opened._server_info  # noqa: SLF001 - the library has no other way to most of it

    @property
    def payload_bytes_max(self) -> int:
        return self._opened.max_payload

    # Requests

    async def publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, *, reply: str = ""
    ) -> None:
        """Send without an answer; `Unavailable` if there is no link, `NoAnswer` if the link is too slow."""
        from nats.errors import Error  # noqa: PLC0415 - an optional dependency

        if not self._opened.is_connected:
            raise Unavailable(self._absent())
        try:
            await self._opened.publish(subject, payload, reply=reply, headers=headers)
        except Error as error:
            raise NoAnswer(f"NATS takes nothing: {error!r}") from error

    async def request(
        self, subject: str, payload: bytes, headers: dict[str, str] | None = None, *, within_s: float | None = None
    ) -> "Msg":
        """The answer. `NoResponder` and `Unavailable` say that it was not carried out, `NoAnswer` that it may be."""
        from nats.errors import Error  # noqa: PLC0415 - an optional dependency

        client = self._opened
        if not client.is_connected:
            raise Unavailable(self._absent())
        self._count += 1
        token = str(self._count)
        answer: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = answer
        try:
            async with asyncio.timeout(self._limits.nats_answer_s if within_s is None else within_s):
                await client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=headers)
                message = await answer
        except TimeoutError:
            if within_s is None:
                await self._heard_nothing(client)
            raise NoAnswer("NATS does not answer") from None
        except Error as error:
            raise NoAnswer(f"NATS takes nothing: {error!r}") from error
        finally:
            self._waiting.pop(token, None)
        self._silent = 0
        if not message.data and (message.headers or {}).get("Status") == _NO_RESPONDERS:
            raise NoResponder("NATS has nobody for this request")
        return message

    async def ask(self, subject: str, body: Mapping[str, Any], answer: type[T]) -> T:
        """A request to JetStream's API, and its answer."""
        message = await self.request(f"$JS.API.{subject}", msgspec.json.encode(body))
        return msgspec.json.decode(message.data, type=answer)

    async def subscribe(self, subject: str, heard: Any = None) -> "Subscription":
        """Call `heard` for each message, or have them from the subscription."""
        if not self._opened.is_connected:
            raise Unavailable(self._absent())
        # At most what one pull brings, twice.
        limit = 2 * max(self._limits.nats_read_bytes_max, 2 * self.payload_bytes_max)
        return await self._opened.subscribe(subject, cb=heard, pending_bytes_limit=limit)

    async def listen(self, subject: str, heard: Any) -> None:
        """Call `heard` for each message from now on: when this returns, the server knows."""
        await self.subscribe(subject, heard)
        # Not the library's `flush`: its ping overtakes what waits to be sent.
        await self.request(f"{self._inbox}.{self._count + 1}", b"")

    def new_inbox(self) -> str:
        return self._opened.new_inbox()

    async def reply(self, message: "Msg", payload: bytes = b"") -> None:
        """Answer a request of another."""
        with suppress(Unavailable, NoAnswer):  # who asked will ask again
            await self.publish(message.reply, payload)

    # From the library

    async def _answered(self, message: "Msg") -> None:
        answer = self._waiting.get(message.subject.rpartition(".")[2])
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _heard_nothing(self, client: "Client") -> None:
        self._silent += 1
        if self._silent >= _SILENT_MAX:
            self._silent = 0
            log.warning("the NATS server does not answer: trying another", store=str(self._address))
            await client.force_reconnect()

    async def _failed(self, error: Exception) -> None:
        from nats.errors import AuthorizationError  # noqa: PLC0415 - an optional dependency

        # It says more than the end of the connection that follows it.
        if not isinstance(self._last_error, AuthorizationError):
            self._last_error = error

    async def _disconnected(self) -> None:
        if not self._is_closing and self._inbox:
            log.warning("the link to NATS is lost; connecting again", store=str(self._address))
        self._lose()

    async def _reconnected(self) -> None:
        self._last_error = None
        log.warning("connected to NATS again", store=str(self._address))
        for heard in self.on_reconnect:
            heard()

    async def _closed(self) -> None:
        # For good, although it was told to go on for ever: the server sent it away.
        if not self._is_closing and self.failure is not None and not self.failure.done():
            self.failure.set_result(Broken(f"NATS has sent this server away: {self._last_error}"))

    def _lose(self) -> None:
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoAnswer("the link to NATS was lost"))

    def _absent(self) -> str:
        return "there is no link to NATS" + (f" ({self._last_error})" if str(self._last_error or "") else "")

    @property
    def _opened(self) -> "Client":
        if self._client is None:
            raise ValueError("the store is not open")
        return self._client


def check_library() -> None:
    """Say how to install what a store on NATS needs."""
    try:
        import nats  # noqa: F401, PLC0415 - an optional dependency
    except ImportError:
        raise ValueError('a store on NATS needs nats-py: pip install "holdfast[cluster]"') from None
