"""The HTTP request that opens a WebSocket: what a server answers to it, and what a client makes of the answer."""

from collections.abc import Sequence
from http import HTTPStatus

from picows import WSError, WSHandshakeError, WSUpgradeRequest, WSUpgradeResponse

from holdfast.logs import get_logger
from holdfast.transports.deflate import Agreement
from holdfast.transports.no_page import names_of
from holdfast.transports.origins import Origins
from holdfast.transports.port import Dialect, DialError, agree
from holdfast.transports.sockets import unreachable

PROTOCOL_HEADER = "Sec-WebSocket-Protocol"
EXTENSIONS_HEADER = "Sec-WebSocket-Extensions"

_log = get_logger("holdfast.transports")


def agreed(
    request: WSUpgradeRequest, dialects: Sequence[Dialect], origins: Origins | None = None
) -> Dialect | WSUpgradeResponse:
    """The dialect to go on with, or the answer to a request that cannot be upgraded. Without origins any page may."""
    try:
        return _agreed(request, dialects, origins)
    except Exception:  # noqa: BLE001 - left to picows, the exception's text would be the answer
        _log.exception("an upgrade request could not be answered")
        return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "This server has a fault.")


def _agreed(
    request: WSUpgradeRequest, dialects: Sequence[Dialect], origins: Origins | None
) -> Dialect | WSUpgradeResponse:
    if origins is not None and not origins.allow(request.headers.getall("Origin", [])):
        return _refusal(HTTPStatus.FORBIDDEN, "Pages of this origin may not connect here.")
    # A list such as "keep-alive, Upgrade" is legal, but picows compares the whole header, after us.
    if "upgrade" in (token.lower() for token in _tokens(request, "Connection")):
        request.headers["Connection"] = "Upgrade"
    return agree(_tokens(request, PROTOCOL_HEADER) or [""], dialects) or _refusal(
        HTTPStatus.BAD_REQUEST, f"Offer one of the sub-protocols {names_of(dialects)} in {PROTOCOL_HEADER}."
    )


def _tokens(request: WSUpgradeRequest, header: str) -> list[str]:
    return [token.strip() for line in request.headers.getall(header, []) for token in line.split(",")]


def acceptance(dialect: Dialect, compression: Agreement | None) -> WSUpgradeResponse:
    """The answer that opens the WebSocket."""
    chosen = {PROTOCOL_HEADER: dialect.name} if dialect.name else {}
    if compression is not None:
        chosen[EXTENSIONS_HEADER] = compression.answer
    response: WSUpgradeResponse = WSUpgradeResponse.create_101_response(chosen)
    return response


def stopping() -> WSUpgradeResponse:
    """The answer to whoever is halfway through the door when it closes."""
    return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "This server is stopping.")


def _refusal(status: HTTPStatus, text: str) -> WSUpgradeResponse:
    # A short answer for people; the socket is closed after it.
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    response: WSUpgradeResponse = WSUpgradeResponse.create_error_response(status, f"{text}\n".encode(), headers)
    return response


def dial_error(url: str, error: OSError | ValueError | WSError) -> DialError:
    """The port's error for what picows raised: who refuses us will do it again, who has a fault may recover."""
    match error:
        case OSError():
            return unreachable(url, error)
        case WSHandshakeError(response=WSUpgradeResponse(status=status)):
            is_refused = status < HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.TOO_MANY_REQUESTS
            return DialError(f"{url} answered {status:d} {status.phrase}", retry=not is_refused)
        case _:
            return DialError(f"{url} does not speak WebSocket: {error}", retry=False)
