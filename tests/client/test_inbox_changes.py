"""Changes of a room's state among the messages of a seat, without a session around them."""

from typing import Any

import pytest
from msgspec import Raw

from holdfast.client.channels import Arrived
from holdfast.client.inbox import Resynced, RoomInbox
from holdfast.core.messages import HostChanged, Message, SeatLeft


class Hit(Message):
    number: int


class Miss(Message):
    pass


class Mailbox:
    """An inbox, the last change that it has applied, and how far it was processed."""

    def __init__(self) -> None:
        self.state = 0
        self.processed = 0
        self.inbox = RoomInbox(self._processed, latest_max=3, apply=self._apply)
        self._seq = 0

    def put(self, *messages: Message) -> None:
        for message in messages:
            self.inbox.put(self._arrived(type(message).wire_name), message)

    def change(self, *states: int) -> None:
        for state in states:
            self.inbox.put_change(self._arrived("holdfast.state"), state)

    def restart(self) -> None:
        self._seq = 0
        self.inbox.restart(Arrived("s1", 1, 2, 0, "", Raw(b"")))

    def read(self, message_type: type[Message] = Message) -> Any:
        message = self.inbox.next(message_type)
        return message.number if isinstance(message, Hit) else message

    def _arrived(self, name: str) -> Arrived:
        self._seq += 1
        return Arrived("s1", 1, 1, self._seq, name, Raw(b""))

    def _processed(self, arrived: Arrived) -> None:
        self.processed = arrived.seq

    def _apply(self, state: int) -> None:
        self.state = state


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


def test_a_change_with_nothing_before_it_is_applied_and_processed_when_it_comes(mailbox: Mailbox) -> None:
    mailbox.change(1, 2)

    assert (mailbox.state, mailbox.processed) == (2, 2)


def test_every_reader_sees_the_state_of_its_message_however_many_are_unread(mailbox: Mailbox) -> None:
    for turn in range(1, 5):
        mailbox.change(turn)
        mailbox.put(Hit(turn))
    mailbox.change(5)

    seen = [(mailbox.read(), mailbox.state, mailbox.processed) for _ in range(5)]

    # A change has been dealt with as soon as it is applied, the message when the next one is asked for.
    assert seen == [(1, 1, 1), (2, 2, 3), (3, 3, 5), (4, 4, 7), (None, 5, 9)]


def test_a_change_waits_while_a_message_is_dealt_with(mailbox: Mailbox) -> None:
    mailbox.put(Hit(1))
    mailbox.read()
    mailbox.change(2)
    before = (mailbox.state, mailbox.processed)

    mailbox.inbox.acknowledge()

    assert (before, (mailbox.state, mailbox.processed)) == ((0, 0), (2, 2))


def test_a_message_that_is_read_before_others_sees_its_own_turn(mailbox: Mailbox) -> None:
    mailbox.change(1)
    mailbox.put(Hit(1))
    mailbox.change(2)
    mailbox.put(Miss())
    mailbox.change(3)

    assert (mailbox.read(Miss), mailbox.state, mailbox.processed) == (Miss(), 2, 1)
    assert (mailbox.read(Hit), mailbox.state, mailbox.processed) == (1, 2, 1)
    mailbox.inbox.acknowledge()
    assert (mailbox.state, mailbox.processed) == (3, 5)


def test_whoever_takes_all_messages_sees_the_state_of_the_last(mailbox: Mailbox) -> None:
    mailbox.change(1)
    mailbox.put(Hit(1))
    mailbox.change(2)
    mailbox.put(Hit(2))
    mailbox.change(3)

    assert (mailbox.inbox.take(), mailbox.state) == ([Hit(1), Hit(2)], 2)
    assert (mailbox.inbox.take(), mailbox.state, mailbox.processed) == ([], 3, 5)


def test_messages_can_be_taken_turn_by_turn(mailbox: Mailbox) -> None:
    mailbox.change(1)
    mailbox.put(Hit(1), Hit(2))
    mailbox.inbox.put_latest(Hit(3))
    mailbox.change(2)
    mailbox.put(Hit(4))
    mailbox.inbox.put_latest(Hit(5))

    assert (mailbox.inbox.take_turn(), mailbox.state) == (([Hit(1), Hit(2), Hit(3)], True), 1)
    assert (mailbox.inbox.take_turn(), mailbox.state) == (([Hit(4), Hit(5)], False), 2)
    assert (mailbox.inbox.take_turn(), mailbox.processed) == (([], False), 5)


def test_the_state_waits_for_its_reader_if_that_is_asked_for(mailbox: Mailbox) -> None:
    mailbox.inbox.holds_changes = True
    mailbox.change(1)
    mailbox.put(SeatLeft("kicked"))
    before = (mailbox.state, mailbox.processed)

    mailbox.inbox.take_turn()

    assert (before, (mailbox.state, mailbox.processed)) == ((0, 0), (1, 2))


def test_what_nobody_reads_is_not_processed_before_a_change_that_waits_for_its_reader(mailbox: Mailbox) -> None:
    mailbox.inbox.holds_changes = True
    mailbox.change(1)
    mailbox.inbox.pass_over(mailbox._arrived("holdfast.answer"))  # noqa: SLF001 - an answer to an ask
    before = mailbox.processed

    mailbox.inbox.acknowledge()

    assert (before, mailbox.processed) == (0, 2)


def test_a_restarted_stream_begins_with_the_view_whether_or_not_the_reader_knows(mailbox: Mailbox) -> None:
    mailbox.change(1)
    mailbox.put(Hit(1))
    mailbox.read()
    mailbox.put(Hit(2))
    mailbox.change(3)

    mailbox.restart()
    mailbox.change(10)
    unread = mailbox.state
    mailbox.put(Hit(11))
    mailbox.change(12)

    assert unread == 10
    assert (mailbox.read(), mailbox.state) == (Resynced(), 10)
    assert (mailbox.read(), mailbox.state, mailbox.processed) == (11, 10, 1)
    assert (mailbox.read(), mailbox.state, mailbox.processed) == (None, 12, 3)


def test_the_view_after_a_restart_comes_while_its_reader_deals_with_that(mailbox: Mailbox) -> None:
    mailbox.restart()
    assert mailbox.read() == Resynced()

    mailbox.change(1)

    assert (mailbox.state, mailbox.processed) == (1, 0)
    mailbox.inbox.acknowledge()
    assert mailbox.processed == 1


def test_what_holdfast_itself_tells_does_not_stop_the_state_of_a_game_that_reads_nothing(mailbox: Mailbox) -> None:
    mailbox.put(HostChanged("ada"))
    mailbox.change(1)
    mailbox.restart()
    for turn in range(1, 10):
        mailbox.put(HostChanged(f"bot-{turn}"))
        mailbox.change(turn)

    assert (mailbox.state, mailbox.processed) == (9, 18)
    # The newest are there for whoever begins to read, and the word of the gap before them.
    assert mailbox.read() == Resynced()
    assert [mailbox.read().player for _ in range(3)] == ["bot-7", "bot-8", "bot-9"]
    mailbox.put(HostChanged("eve"))
    mailbox.change(10)
    assert (mailbox.state, mailbox.read().player, mailbox.state) == (9, "eve", 9)


def test_a_message_of_the_game_stops_the_state_until_it_is_read(mailbox: Mailbox) -> None:
    mailbox.put(HostChanged("ada"), Hit(1))
    mailbox.change(1)

    assert (mailbox.state, mailbox.processed) == (0, 1)
    assert [mailbox.read(), mailbox.read(), mailbox.read()] == [HostChanged("ada"), 1, None]
    assert (mailbox.state, mailbox.processed) == (1, 3)


def test_nothing_is_applied_any_more_once_the_rest_is_dropped(mailbox: Mailbox) -> None:
    mailbox.put(Hit(1))
    mailbox.change(1)

    mailbox.inbox.discard(SeatLeft("left"))
    mailbox.change(2)

    assert (mailbox.state, mailbox.processed) == (0, 3)


def test_a_listener_may_read_messages_while_a_change_is_applied(mailbox: Mailbox) -> None:
    read: list[Any] = []
    mailbox.inbox._apply = lambda state: read.append((state, mailbox.read()))  # noqa: SLF001 - as a listener would
    mailbox.put(Hit(1))
    mailbox.change(2)
    mailbox.put(Hit(2), Hit(3))

    assert [mailbox.read(), mailbox.read(), mailbox.read()] == [1, 3, None]
    assert read == [(2, 2)]
    mailbox.inbox.acknowledge()
    assert mailbox.processed == 4
