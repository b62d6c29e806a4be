"""Every route, with what a key needs for it and a body that it takes: the tests walk this table."""

from typing import Any, NamedTuple

from holdfast.http.api import Scope


class Route(NamedTuple):
    """One thing to ask for."""

    method: str
    path: str
    scope: Scope | None
    body: dict[str, Any] | None = None

    @property
    def url(self) -> str:
        """The path with ids in it."""
        ids = {
            "room_id": "r",
            "player_id": "p",
            "session_id": "s",
            "placement_id": "m",
            "target": "s",
            "node": "node-2",
        }
        ids |= {"role": "gm", "subject": "player:p", "account_name": "ada", "name": "dashboard.js"}
        return self.path.format(**ids)


ROUTES = [
    Route("GET", "/v1/rooms", Scope.READ),
    Route("POST", "/v1/rooms", Scope.ROOMS, {"kind": "arena"}),
    Route("GET", "/v1/rooms/{room_id}", Scope.READ),
    Route("PATCH", "/v1/rooms/{room_id}", Scope.ROOMS, {"name": "x"}),
    Route("DELETE", "/v1/rooms/{room_id}", Scope.ROOMS),
    Route("GET", "/v1/rooms/{room_id}/state", Scope.READ),
    Route("GET", "/v1/rooms/{room_id}/messages", Scope.ADMIN),
    Route("POST", "/v1/rooms/{room_id}/broadcast", Scope.ROOMS, {"type": "notice"}),
    Route("GET", "/v1/rooms/{room_id}/recording", Scope.ADMIN),
    Route("GET", "/v1/rooms/{room_id}/recording/turns", Scope.ADMIN),
    Route("GET", "/v1/rooms/{room_id}/recording/state", Scope.ADMIN),
    Route("GET", "/v1/rooms/{room_id}/recording/file", Scope.ADMIN),
    Route("POST", "/v1/rooms/{room_id}/forks", Scope.ADMIN, {"turn": 1}),
    Route("POST", "/v1/rooms/{room_id}/move", Scope.ADMIN, {"to": "node-2"}),
    Route("GET", "/v1/nodes", Scope.READ),
    Route("POST", "/v1/nodes/{node}/drain", Scope.ADMIN),
    Route("DELETE", "/v1/nodes/{node}/drain", Scope.ADMIN),
    Route("GET", "/v1/kinds", Scope.READ),
    Route("GET", "/v1/rooms/{room_id}/seats", Scope.READ),
    Route("POST", "/v1/rooms/{room_id}/reservations", Scope.ROOMS, {"players": ["p"]}),
    Route("DELETE", "/v1/rooms/{room_id}/reservations/{player_id}", Scope.ROOMS),
    Route("DELETE", "/v1/rooms/{room_id}/seats/{player_id}", Scope.ADMIN),
    Route("GET", "/v1/rooms/{room_id}/spectators", Scope.READ),
    Route("DELETE", "/v1/rooms/{room_id}/spectators/{player_id}", Scope.ADMIN),
    Route("GET", "/v1/sessions", Scope.READ),
    Route("GET", "/v1/sessions/{session_id}", Scope.READ),
    Route("PATCH", "/v1/sessions/{session_id}", Scope.ADMIN, {"limits": {"idle_s": 0}}),
    Route("DELETE", "/v1/sessions/{session_id}", Scope.ADMIN),
    Route("POST", "/v1/sessions/{session_id}/drop", Scope.ADMIN),
    Route("GET", "/v1/sessions/{session_id}/timeline", Scope.READ),
    Route("GET", "/v1/players", Scope.READ),
    Route("GET", "/v1/players/{player_id}", Scope.READ),
    Route("GET", "/v1/players/{player_id}/timeline", Scope.READ),
    Route("POST", "/v1/players/{player_id}/sign-out", Scope.ADMIN),
    Route("GET", "/v1/roles", Scope.ADMIN),
    Route("PUT", "/v1/players/{player_id}/roles/{role}", Scope.ADMIN),
    Route("DELETE", "/v1/players/{player_id}/roles/{role}", Scope.ADMIN),
    Route("DELETE", "/v1/players/{player_id}/roles", Scope.ADMIN),
    Route("GET", "/v1/bans", Scope.ADMIN),
    Route("POST", "/v1/bans", Scope.ADMIN, {"player": "p"}),
    Route("DELETE", "/v1/bans/{subject}", Scope.ADMIN),
    Route("POST", "/v1/accounts", Scope.ADMIN, {"name": "ada", "password": "enough letters"}),
    Route("GET", "/v1/accounts/{account_name}", Scope.ADMIN),
    Route("PUT", "/v1/accounts/{account_name}/password", Scope.ADMIN, {"password": "enough letters"}),
    Route("DELETE", "/v1/accounts/{account_name}", Scope.ADMIN),
    Route("POST", "/v1/tickets", Scope.ADMIN, {"player": "p"}),
    Route("GET", "/v1/queues", Scope.READ),
    Route("GET", "/v1/placements", Scope.READ),
    Route("POST", "/v1/placements", Scope.ROOMS, {"queue": "europe", "kind": "arena"}),
    Route("GET", "/v1/placements/{placement_id}", Scope.READ),
    Route("DELETE", "/v1/placements/{placement_id}", Scope.ROOMS),
    Route("GET", "/v1/node", Scope.READ),
    Route("POST", "/v1/broadcast", Scope.ADMIN, {"text": "soon"}),
    Route("GET", "/v1/events", Scope.READ),
    Route("GET", "/metrics", Scope.READ),
    Route("GET", "/v1/overview", Scope.READ),
    Route("GET", "/v1/overview/live", Scope.READ),
    Route("GET", "/v1/settings", Scope.READ),
    Route("GET", "/v1/packet-log", Scope.ADMIN),
    Route("PUT", "/v1/packet-log/{target}", Scope.ADMIN),
    Route("DELETE", "/v1/packet-log/{target}", Scope.ADMIN),
    Route("GET", "/livez", None),
    Route("GET", "/readyz", None),
    Route("GET", "/openapi.json", None),
    Route("GET", "/docs", None),
    Route("GET", "/", None),
    Route("GET", "/assets/{name}", None),
]
NAMES = [f"{route.method} {route.path}" for route in ROUTES]
