"""Timelines as they come about, for the tests of their explanations: Ada, who comes at noon."""

from holdfast.core.reasons import Reason
from holdfast.schemas.events import (
    Authenticated,
    Dropped,
    Ended,
    Event,
    LimitExceeded,
    PlayerJoined,
    PlayerLeft,
    Released,
    Restored,
    Resumed,
    RolledBack,
    SessionOpened,
    SessionResynced,
    Superseded,
    TokenReused,
)

# 2027-01-15 12:00:00 UTC
NOON = 1_800_014_400.0
WHO = {"session": "s", "player": "ada"}


def opened(transport: str = "websocket", *, peer: str = "203.0.113.7:51234", is_reset: bool = False) -> SessionOpened:
    return SessionOpened(**WHO, connection="c1", transport=transport, peer=peer, is_reset=is_reset, at=NOON)


def proven(*roles: str) -> Authenticated:
    return Authenticated(**WHO, scheme="guest", roles=list(roles), at=NOON)


def joined() -> PlayerJoined:
    return PlayerJoined(**WHO, room="r", kind="arena", at=NOON + 1)


def dropped(reason: str = Reason.DROPPED, *, code: int = 1006, pings: int = 0, silent_s: float = 0.4) -> Dropped:
    return Dropped(
        **WHO,
        connection="c1",
        reason=reason,
        grace_s=30.0,
        silent_s=silent_s,
        pings=pings,
        latency_ms=35.2,
        last_ms=41.0,
        worst_ms=240.4,
        code=code if reason == Reason.DROPPED else 0,
        at=NOON + 187,
    )


def resumed(outcome: str = "resumed", replayed: int = 5, away_s: float = 3.2) -> Resumed:
    return Resumed(
        **WHO,
        connection="c2",
        transport="websocket",
        outcome=outcome,
        replayed=replayed,
        away_s=away_s,
        at=NOON + 190.2,
    )


def left(reason: str, message: str = "", at: float = NOON + 217) -> PlayerLeft:
    return PlayerLeft(**WHO, room="r", reason=reason, message=message, at=at)


def ended(reason: str, message: str = "") -> Ended:
    return Ended(session=WHO["session"], player=WHO["player"], reason=reason, message=message, at=NOON + 217)


def released(reason: str) -> Released:
    return Released(**WHO, reason=reason, at=NOON + 217)


def restored(room: str = "r") -> Restored:
    return Restored(session=WHO["session"], player=WHO["player"], grace_s=30.0, room=room, at=NOON)


def superseded() -> Superseded:
    return Superseded(**WHO, connection="c1", at=NOON + 187)


def resynced() -> SessionResynced:
    return SessionResynced(**WHO, at=NOON + 187)


def rolled_back() -> RolledBack:
    return RolledBack(**WHO, outcome="resynced", room="r", age_s=60.0, at=NOON + 187)


def reused() -> TokenReused:
    return TokenReused(**WHO, peer="198.51.100.1:40000", at=NOON + 217)


def limited(times: int = 1) -> LimitExceeded:
    return LimitExceeded(**WHO, limit="messages_per_s", action="warned", times=times, at=NOON + 100)


def at_play(*then: Event) -> list[Event]:
    """Ada signs in and takes a seat; then this happens."""
    return [opened(), proven(), joined(), *then]
