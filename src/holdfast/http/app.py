"""The API as an ASGI application. Litestar is imported from here on: `api.py` puts that off."""

from collections.abc import Sequence
from typing import Any

from litestar import Litestar, Request, Response
from litestar.datastructures import State
from litestar.di import Provide
from litestar.enums import ScopeType
from litestar.types import LifeSpanReceive, LifeSpanScope, LifeSpanSend, Message, Receive, Scope, Send

from holdfast.core.addresses import is_host_header
from holdfast.http.answers import Answer, answer_problem
from holdfast.http.context import Context, context_of
from holdfast.http.folder import Folder
from holdfast.http.guards import admit
from holdfast.http.keys import ApiKey
from holdfast.http.limits import HttpLimits
from holdfast.http.openapi import document
from holdfast.http.port import Backend
from holdfast.http.problems import ProblemError
from holdfast.http.requests import ApiRequest, asked, escape_path, unescape
from holdfast.http.routes import (
    accounts,
    bans,
    documents,
    inside,
    metrics,
    node,
    overview,
    packet_log,
    placements,
    players,
    rooms,
    seats,
    sessions,
    site,
    tickets,
    timeline,
)
from holdfast.http.site import Site

_HANDLERS = [
    *(rooms.search_rooms, rooms.create_room, rooms.get_room, rooms.update_room, rooms.end_room),
    *(inside.list_kinds, inside.get_room_state, inside.read_messages, inside.broadcast),
    *(seats.list_seats, seats.reserve_seats, seats.release_seat, seats.kick_player),
    *(sessions.list_sessions, sessions.get_session, sessions.end_session, sessions.drop_session),
    *(timeline.explain_session, timeline.explain_player),
    *(players.list_players, players.get_player, bans.sign_out_player),
    *(bans.list_bans, bans.ban, bans.unban),
    *(accounts.create_account, accounts.get_account, accounts.set_password, accounts.delete_account),
    tickets.issue_ticket,
    *(placements.list_queues, placements.list_placements, placements.start_placement),
    *(placements.get_placement, placements.stop_placement),
    *(node.get_node, node.read_events, node.livez, node.readyz, metrics.read_metrics),
    *(overview.get_overview, overview.watch_overview, overview.get_settings),
    *(packet_log.list_packet_targets, packet_log.log_packets, packet_log.stop_logging_packets),
    *(documents.openapi, documents.docs, site.dashboard, site.dashboard_file),
]
# On every answer, problems too: what is shown changes all the time, and is what its Content-Type says.
_HEADERS = [(b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]


class App(Litestar):
    """Litestar, with paths whose ids may contain slashes."""

    async def __call__(
        self, scope: Scope | LifeSpanScope, receive: Receive | LifeSpanReceive, send: Send | LifeSpanSend
    ) -> None:
        """One request."""
        if scope["type"] != ScopeType.HTTP:
            await super().__call__(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_HEADERS]
            await send(message)  # type: ignore[arg-type]  # not of a lifespan

        inner: Any = dict(scope)
        raw_path: bytes = inner["raw_path"]
        folder, limit = context_of(self).folder, context_of(self).limits.path_bytes_max
        inner["path"] = escape_path(raw_path[:limit])
        error = self._misdirected(inner, limit)
        if error is not None:
            request: Request[Any, Any, Any] = Request(inner)
            answer = answer_problem(request, error).to_asgi_response(app=None, request=request)
            await answer(inner, receive, send_with_headers)  # type: ignore[arg-type]  # the same
            return
        asked_for = raw_path.decode("ascii", "replace")
        if folder is not None and folder.owns(asked_for):
            await folder.respond(inner, asked_for, send_with_headers)
            return
        await super().__call__(inner, receive, send_with_headers)

    def _misdirected(self, scope: Any, path_bytes_max: int) -> ProblemError | None:
        """Why a request is for nobody here, if it is not."""
        if len(scope["raw_path"]) > path_bytes_max:
            return ProblemError("path_too_long", f"a path has at most {path_bytes_max} bytes")
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if not all(is_host_header(value.decode("latin-1")) for name, value in headers if name == b"host"):
            return ProblemError("invalid", "the Host header holds a name or an address, and a port if it is not 80")
        if any(name == b"upgrade" and value.lower() == b"websocket" for name, value in headers):
            urls = " or ".join(context_of(self).game_urls()) or "its own port"
            return ProblemError("invalid", f"this is the HTTP API, which has no WebSocket: games connect to {urls}")
        return None


def make_app(
    backend: Backend,
    keys: Sequence[ApiKey] = (),
    limits: HttpLimits | None = None,
    page: Site | None = None,
    folder: Folder | None = None,
) -> App:
    """The API of a node; without keys it serves only this machine, and `HttpServer` listens only there."""
    limits = limits or HttpLimits()
    context = Context(tuple(keys), limits, page or Site(), folder)
    context.game_urls = lambda: list(backend.settings().urls.values())

    async def provide_backend() -> Backend:
        return backend

    app = App(
        _HANDLERS,
        before_request=_before,
        debug=False,
        dependencies={"asked": Provide(asked), "backend": Provide(provide_backend)},
        exception_handlers={Exception: answer_problem},
        guards=[admit],
        logging_config=None,
        openapi_config=None,
        pdb_on_exception=False,
        request_class=ApiRequest,
        request_max_body_size=limits.body_bytes_max,
        response_class=Answer,
        state=State({"context": context}),
    )
    context.describe(document(app, has_keys=bool(keys)))
    return app


async def _before(request: Request[Any, Any, Any]) -> Response[None] | None:
    if request.method == "OPTIONS":
        # Litestar's own answer forgets the methods that were added to a path later.
        methods = context_of(request.app).methods[request.scope["path_template"]]
        return Response(None, status_code=204, headers={"Allow": methods})
    values = request.scope["path_params"]
    if any("%" in value for value in values.values()):
        # A new one: the router keeps the old one for the next time.
        request.scope["path_params"] = {name: unescape(value) for name, value in values.items()}
    return None
