"""Planted bugs of messages to sessions: what is kept for them, saved with them, and said of a gap."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.client.channels import Restarted
from holdfast.client.session_inbox import SessionInbox
from holdfast.core.session import Session
from holdfast.server.durability.committer import Committer
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.durability.gated_turns import CurrentTurn
from holdfast.server.durability.room_writer import RoomWriter
from holdfast.server.session_messages import SessionMessages
from tests.simulation.planting import durable_mutant, mutant, patched


@mutant
def messages_to_a_session_that_is_away_are_not_kept() -> Iterator[None]:
    def push(messages: SessionMessages, session: Session, name: str, body: bytes) -> None:
        if session.connection is not None:
            right(messages, session, name, body)

    right = SessionMessages.push
    with patched(SessionMessages, push=push):
        yield


@mutant
def a_gap_in_messages_to_a_session_is_not_declared() -> Iterator[None]:
    def happened(inbox: SessionInbox, event: Any) -> bool:
        return (isinstance(event, Restarted) and event.channel == inbox._channel) or right(inbox, event)

    right = SessionInbox.happened
    with patched(SessionInbox, happened=happened):
        yield


@durable_mutant
def a_message_to_a_session_does_not_wait_for_the_turn_that_sent_it() -> Iterator[None]:
    with patched(CurrentTurn, room=property(lambda _: None)):
        yield


@durable_mutant
def a_message_to_a_session_does_not_wait_for_its_record() -> Iterator[None]:
    def _staged(messages: SessionMessages, outlet: GatedOutlet) -> None:
        outlet.cut()
        outlet.release()

    with patched(SessionMessages, _staged=_staged):
        yield


@durable_mutant
def a_message_to_a_session_is_not_saved_with_the_turn_that_sent_it() -> Iterator[None]:
    def _cut_sends(writer: RoomWriter, number: str) -> Any:
        return [(session, messages, "") for session, messages, _ in right(writer, number)]

    right = RoomWriter._cut_sends
    with patched(RoomWriter, _cut_sends=_cut_sends):
        yield


@durable_mutant
def a_message_to_a_session_is_not_struck_off_when_the_session_has_it() -> Iterator[None]:
    def consumed(committer: Committer, session: Session, send: Any) -> None:
        """It stays in the store, for the next server."""

    with patched(Committer, consumed=consumed):
        yield
