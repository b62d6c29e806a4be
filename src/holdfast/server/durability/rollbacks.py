"""Notices that the store went back in time: a client knows more than the store does."""

from collections.abc import Callable

from holdfast.core.session import Session
from holdfast.logs import get_logger
from holdfast.observability.metrics import Counters
from holdfast.schemas.events import Event, RolledBack
from holdfast.schemas.frames import Resume

log = get_logger("holdfast.server")


class Rollbacks:
    """Tells the operator: in the log once per start of the server; later ones are counted and published."""

    def __init__(self, publish: Callable[[Event], None], counters: Counters) -> None:
        self._publish = publish
        self._counters = counters
        self._is_logged = False

    def noticed(self, session: Session, resume: Resume, outcome: str, *, peer: str) -> None:
        """A client resumes with more than the store has of its session."""
        if not session.lineage.forks:
            # It was not restored since its client was heard: the client is mistaken, or lies.
            return
        self._counters.clients_rolled_back += 1
        room = session.room_id
        age_s = session.lineage.age_s(resume.lineage)
        age_s = round(age_s, 3) if age_s is not None else None
        self._publish(
            RolledBack(
                session=session.id,
                player=session.player_id,
                player_name=session.name,
                outcome=outcome,
                room=room,
                age_s=age_s,
                peer=peer,
            )
        )
        if not self._is_logged:
            self._is_logged = True
            log.error(
                "the store is older than what a client has seen: a backup was restored, or the disk lost writes that "
                "it had confirmed. What happened since is gone, and clients are told. If this was not on purpose, stop "
                "the server and look for a newer copy of the store",
                session=session.id,
                room=room,
                age_s=age_s,
            )
