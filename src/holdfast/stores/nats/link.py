"""A connection to NATS: requests with their answers, over one inbox, and what becomes of them when the link is lost.

The client library reconnects by itself, but lets a request wait for its whole time; here the loss of the link ends all
that wait, because no answer will come. What was sent may be carried out nevertheless.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.core.limits import NatsLimits
from holdfast.logs import get_logger
from holdfast.stores.nats.address import NatsAddress
from holdfast.stores.nats.subjects import Subjects
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
_VIOLATION = re.compile(r'permissions violation for (?P<what>publish|subscription)\b[^"]*"(?P<subject>[^"]+)"', re.I)
# A link subscribes to a handful of subjects.
_DEAF_MAX = 64
_CREDENTIALS = ("NATS USER JWT", "USER NKEY SEED")
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


class NotPermitted(Unavailable):
    """The user may not send this request, or may not hear its answer."""

    def __init__(self, what: str, subject: str) -> None:
        super().__init__(
            f"this user of NATS may not {what} {subject}: add it to the user's permissions, as in deploy/nats/nats.conf"
        )


class NatsLink:
    """One connection, from `open` to `close`."""

    def __init__(self, address: NatsAddress, limits: NatsLimits) -> None:
        self._address = address
        self._limits = limits
        self._client: Client | None = None
        self._inbox = ""
        self._count = 0
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        """The subject of each request that has no answer yet."""
        self._deaf_to: list[str] = []
        """What this user may not subscribe to, as far as it was tried, in lower case."""
        self._silent = 0
        self._silent_at = 0.0
        """When the last of them was given up: requests that wait at the same time are one silence."""
        self._last_error: Exception | None = None
        self._is_closing = False
        self.failure: asyncio.Future[Broken] | None = None
        self.on_reconnect: list[Callable[[], None]] = []
        """The link was lost and is back."""

    async def open(self) -> None:
        """Connect to one of the servers, or `Unavailable`."""
        self.failure = asyncio.get_running_loop().create_future()
        options = self._options()
        client = self._client = _strict_client()
        try:
            await self._connect(client, options)
            self._inbox = client.new_inbox()
            await self.listen(f"{self._inbox}.*", self._answered)
        except BaseException:
            await self.close()
            raise

    async def _connect(self, client: "Client", options: dict[str, Any]) -> None:
        from nats.errors import Error  # noqa: PLC0415 - an optional dependency

        connecting = asyncio.create_task(client.connect(**options))
        try:
            # Each of them may be the one that takes no connection and refuses none.
            within_s = self._limits.nats_connect_s * len(self._address.servers)
            await asyncio.wait([connecting], timeout=within_s)
            is_late = not connecting.done()
        finally:
            # Between two attempts the library takes a cancellation for that of a task of its own, and goes on.
            while not connecting.done():
                connecting.cancel()
                await asyncio.wait([connecting], timeout=_CANCEL_AGAIN_S)
        if is_late:
            why = f" ({self._last_error})" if str(self._last_error or "") else ""
            check = "that it runs, and its address"
            if self._is_refused:
                check = "the user and the password"
            elif isinstance(self._last_error, ssl.SSLError):
                check = "the certificates: ca=FILE of those who signed the NATS server's, certificate=FILE of this node"
            raise Unavailable(f"no NATS server lets this one in{why}; check {check}")
        try:
            connecting.result()
        except (Error, OSError) as error:
            raise Unavailable(f"NATS does not let this server in: {error!r}") from error

    def _options(self) -> dict[str, Any]:
        limits, address = self._limits, self._address
        options: dict[str, Any] = {
            "servers": list(address.servers),
            "name": "holdfast",
            # Not the one that all users share: a user who may listen there hears the answers to the others.
            "inbox_prefix": Subjects(address.name).inboxes,
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
        # For every server: also for those of the cluster that the address does not name.
        if address.user:
            options |= {"user": address.user, "password": address.password}
        if address.token:
            options["token"] = address.token
        if address.credentials:
            check_credentials(address.credentials)
            options["user_credentials"] = address.credentials
        if address.is_encrypted:
            options["tls"] = _tls(address)
        return options

    async def close(self) -> None:
        self._is_closing = True
        client, self._client = self._client, None
        if client is not None:
            # Whatever it is, the connection is not used any more. One with TLS that broke while it was made never ends.
            with suppress(Exception):
                async with asyncio.timeout(self._limits.nats_answer_s):
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
        self,
        subject: str,
        payload: bytes,
        headers: dict[str, str] | None = None,
        *,
        within_s: float | None = None,
        again_s: float | None = None,
    ) -> "Msg":
        """The answer. `NoResponder` and `Unavailable` say that it was not carried out, `NoAnswer` that it may be.

        `again_s` is for what may be asked twice: it is sent again after each such pause, so that the answer does not
        have to wait for the end of a request to a server that had just gone.
        """
        from nats.errors import Error  # noqa: PLC0415 - an optional dependency

        client = self._opened
        if not client.is_connected:
            raise Unavailable(self._absent())
        self._count += 1
        token = str(self._count)
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        answer: asyncio.Future[Msg] = loop.create_future()
        self._waiting[token] = (subject, answer)
        try:
            async with asyncio.timeout(self._limits.nats_answer_s if within_s is None else within_s):
                await client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=headers)
                while again_s is not None and not (await asyncio.wait([answer], timeout=again_s))[0]:
                    await client.publish(subject, payload, reply=f"{self._inbox}.{token}", headers=headers)
                message = await answer
        except TimeoutError:
            if within_s is None and began_at >= self._silent_at:
                self._silent_at = loop.time()
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

    async def ask(self, subject: str, body: Mapping[str, Any], answer: type[T], *, again_s: float | None = None) -> T:
        """A request to JetStream's API, and its answer."""
        message = await self.request(f"$JS.API.{subject}", msgspec.json.encode(body), again_s=again_s)
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
        if subject.lower() in self._deaf_to:
            raise NotPermitted("subscribe to", subject)

    def new_inbox(self) -> str:
        return self._opened.new_inbox()

    async def reply(self, message: "Msg", payload: bytes = b"") -> None:
        """Answer a request of another."""
        with suppress(Unavailable, NoAnswer):  # who asked will ask again
            await self.publish(message.reply, payload)

    # From the library

    async def _answered(self, message: "Msg") -> None:
        _, answer = self._waiting.get(message.subject.rpartition(".")[2], ("", None))
        if answer is not None and not answer.done():
            answer.set_result(message)

    async def _heard_nothing(self, client: "Client") -> None:
        self._silent += 1
        if self._silent >= _SILENT_MAX:
            self._silent = 0
            log.warning("the NATS server does not answer: trying another", store=str(self._address))
            await client.force_reconnect()

    async def _failed(self, error: Exception) -> None:
        if (found := _VIOLATION.search(str(error))) is not None:
            self._not_permitted(found["what"], found["subject"])
        # It says more than the end of the connection that follows it.
        elif not self._is_refused:
            self._last_error = error

    @property
    def _is_refused(self) -> bool:
        return "authorization" in repr(self._last_error).lower()

    def _not_permitted(self, what: str, subject: str) -> None:
        """The library has the server's words in lower case."""
        is_deaf = what != "publish"
        if is_deaf and len(self._deaf_to) < _DEAF_MAX:
            self._deaf_to.append(subject)
        for wanted, answer in self._waiting.values():
            if answer.done():
                continue
            if is_deaf and subject == f"{self._inbox}.*".lower():
                answer.set_exception(NotPermitted("subscribe to", f"{self._inbox.rpartition('.')[0]}.>"))
            elif not is_deaf and subject == wanted.lower():
                answer.set_exception(NotPermitted("publish to", wanted))

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
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoAnswer("the link to NATS was lost"))

    def _absent(self) -> str:
        return "there is no link to NATS" + (f" ({self._last_error})" if str(self._last_error or "") else "")

    @property
    def _opened(self) -> "Client":
        if self._client is None:
            raise ValueError("the store is not open")
        return self._client


def _strict_client() -> "Client":
    """A client that is told to encrypt, and then sends nothing, no password either, to a server that does not."""
    from nats.aio.client import Client  # noqa: PLC0415 - an optional dependency
    from nats.errors import Error  # noqa: PLC0415 - an optional dependency

    class StrictClient(Client):
        def _connect_command(self) -> bytes:
            # The library encrypts if the server wants it, whatever the address says. This is its first word to one.
            if "tls" in self.options and not self._server_info.get("tls_required"):
                raise Error("it does not encrypt: add `tls { cert_file: …, key_file: … }` to its configuration")
            return super()._connect_command()

    return StrictClient()


def _tls(address: NatsAddress) -> ssl.SSLContext:
    """Whom to trust, and what to show; `ValueError` for files that are none of it."""
    try:
        context = ssl.create_default_context(cafile=address.ca or None)
    except OSError as error:
        raise ValueError(f"{address}: {address.ca} has no certificate in PEM form: {error}") from None
    if address.certificate:
        try:
            context.load_cert_chain(address.certificate, address.key or None)
        except OSError as error:
            raise ValueError(
                f"{address}: {address.certificate} has no certificate and key that belong together: {error}; a key in"
                " another file is named with key=FILE"
            ) from None
    return context


def check_credentials(file: str) -> None:
    """Whether a file has a user's credentials: the library reads on and on in one that has none."""
    try:
        text = Path(file).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ValueError(f"the credentials {file} cannot be read: {error.strerror}") from None
    if not all(f"-----BEGIN {part}-----" in text for part in _CREDENTIALS):
        raise ValueError(f"{file} has no credentials of a NATS user: make it with `nsc generate creds`")
    if find_spec("nkeys") is None:
        raise ValueError('credentials need nkeys: pip install "holdfast[cluster]"')


def check_library() -> None:
    """Say how to install what a store on NATS needs."""
    try:
        import nats  # noqa: F401, PLC0415 - an optional dependency
    except ImportError:
        raise ValueError('a store on NATS needs nats-py: pip install "holdfast[cluster]"') from None
