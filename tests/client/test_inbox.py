"""The messages of a seat that wait to be read, without a session around them."""

from typing import Any

import pytest
from msgspec import Raw

from holdfast.client.channels import Arrived
from holdfast.client.inbox import Resynced, RoomInbox
from holdfast.core.messages import Message, SeatLeft


class Hit(Message):
    number: int


class Miss(Message):
    pass


class Mailbox:
    """An inbox, and what it said was processed."""

    def __init__(self) -> None:
        self.processed: list[int] = []
        self.inbox = RoomInbox(lambda arrived: self.processed.append(arrived.seq), latest_max=3)
        self._seq = 0

    def put(self, *numbers: int) -> None:
        for number in numbers:
            self._put(Hit(number))

    def put_miss(self) -> None:
        self._put(Miss())

    def put_latest(self, *numbers: int) -> None:
        for number in numbers:
            self.inbox.put_latest(Hit(number))

    def kick(self) -> None:
        self._put(SeatLeft("kicked"))

    def restart(self) -> None:
        self._seq = 0
        self.inbox.restart(self._arrived(0))

    def _put(self, message: Message) -> None:
        self._seq += 1
        self.inbox.put(self._arrived(self._seq), message)

    def _arrived(self, seq: int) -> Arrived:
        return Arrived("s1", 1, 1, seq, "", Raw(b""))

    def read(self, message_type: type[Message] = Message) -> Any:
        message = self.inbox.next(message_type)
        return message.number if isinstance(message, Hit) else message


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


def test_messages_are_read_in_the_order_they_came_whatever_their_kind(mailbox: Mailbox) -> None:
    mailbox.put(1)
    mailbox.put_latest(2)
    mailbox.put(3)
    mailbox.put_latest(4)

    assert [mailbox.read() for _ in range(5)] == [1, 2, 3, 4, None]


def test_all_at_once_they_come_in_the_same_order(mailbox: Mailbox) -> None:
    mailbox.put(1)
    mailbox.put_latest(2)
    mailbox.put(3)

    assert mailbox.inbox.take() == [Hit(1), Hit(2), Hit(3)]
    assert mailbox.inbox.take() == []


def test_of_unreliable_messages_the_newest_are_kept(mailbox: Mailbox) -> None:
    mailbox.put_latest(*range(100))

    assert mailbox.inbox.take() == [Hit(97), Hit(98), Hit(99)]


def test_a_message_is_processed_when_the_next_is_asked_for(mailbox: Mailbox) -> None:
    mailbox.put(1, 2)

    story = [(mailbox.read(), list(mailbox.processed)) for _ in range(3)]

    assert story == [(1, []), (2, [1]), (None, [1, 2])]


# One type before the others


def test_one_type_is_read_before_the_others_which_stay_in_their_order(mailbox: Mailbox) -> None:
    mailbox.put(1)
    mailbox.put_miss()
    mailbox.put_latest(2)
    mailbox.put_miss()
    mailbox.put(3)

    assert [mailbox.read(Miss) for _ in range(3)] == [Miss(), Miss(), None]
    assert mailbox.inbox.take() == [Hit(1), Hit(2), Hit(3)]


def test_a_message_that_was_read_early_is_processed_when_those_before_it_are(mailbox: Mailbox) -> None:
    mailbox.put(1, 2)
    mailbox.put_miss()
    mailbox.put(4)

    story = [(mailbox.read(each), list(mailbox.processed)) for each in (Miss, Hit, Hit, Hit, Hit)]

    assert story == [(Miss(), []), (1, []), (2, [1]), (4, [1, 3]), (None, [1, 3, 4])]


def test_the_end_is_processed_after_what_was_read_early(mailbox: Mailbox) -> None:
    mailbox.put(1)
    mailbox.put_miss()
    mailbox.read(Miss)
    mailbox.kick()

    assert mailbox.inbox.take() == [Hit(1)]
    assert mailbox.processed == []
    mailbox.inbox.acknowledge()
    assert mailbox.processed == [2, 3]


def test_what_was_read_early_is_forgotten_when_the_stream_begins_anew(mailbox: Mailbox) -> None:
    mailbox.put(1)
    mailbox.put_miss()
    mailbox.read(Miss)

    mailbox.restart()
    mailbox.put_miss()
    assert mailbox.read(Miss) == Miss()
    assert mailbox.read(Hit) is None
    assert mailbox.processed == []
    assert mailbox.inbox.take() == [Resynced()]
    mailbox.inbox.acknowledge()

    assert mailbox.processed == [0, 1]


def test_what_was_taken_is_processed_when_more_is_asked_for(mailbox: Mailbox) -> None:
    mailbox.put(1, 2, 3)
    mailbox.inbox.take()
    assert mailbox.processed == []

    mailbox.inbox.take()

    assert mailbox.processed == [3]


def test_what_was_read_can_be_acknowledged_and_what_was_not_cannot(mailbox: Mailbox) -> None:
    mailbox.put(1, 2)
    mailbox.read()

    mailbox.inbox.acknowledge()
    mailbox.inbox.acknowledge()

    assert mailbox.processed == [1]


def test_the_end_is_known_at_once_and_processed_after_everything_before_it(mailbox: Mailbox) -> None:
    mailbox.put(1, 2)
    mailbox.kick()
    assert mailbox.inbox.left == SeatLeft("kicked")

    story = [(mailbox.read(), list(mailbox.processed)) for _ in range(3)]

    assert story == [(1, []), (2, [1]), (None, [1, 2, 3])]


def test_the_end_waits_for_the_message_in_hand(mailbox: Mailbox) -> None:
    mailbox.put(1)
    mailbox.read()
    mailbox.kick()
    assert mailbox.processed == []

    mailbox.inbox.acknowledge()

    assert mailbox.processed == [1, 2]


def test_the_end_of_what_was_read_needs_no_reader(mailbox: Mailbox) -> None:
    mailbox.kick()

    assert mailbox.processed == [1]


def test_what_is_discarded_counts_as_processed_also_what_still_comes(mailbox: Mailbox) -> None:
    mailbox.put(1, 2)

    mailbox.inbox.discard(SeatLeft("left"))
    mailbox.put(3)
    mailbox.put_latest(4)
    mailbox.kick()

    assert mailbox.processed == [2, 3, 4]
    assert mailbox.inbox.take() == []
    assert mailbox.inbox.left == SeatLeft("left")


def test_a_stream_that_begins_anew_replaces_what_was_not_read(mailbox: Mailbox) -> None:
    mailbox.put(1, 2)
    mailbox.put_latest(3)
    mailbox.read()

    mailbox.restart()
    mailbox.put(4)

    assert mailbox.inbox.take() == [Resynced(), Hit(4)]
    assert mailbox.processed == []


def test_that_a_stream_began_anew_is_processed_like_a_message(mailbox: Mailbox) -> None:
    mailbox.restart()
    assert mailbox.read() == Resynced()
    assert mailbox.processed == []

    mailbox.read()

    assert mailbox.processed == [0]


def test_nobody_is_told_of_a_restart_who_does_not_read(mailbox: Mailbox) -> None:
    mailbox.inbox.discard(SeatLeft("left"))

    mailbox.restart()

    assert mailbox.inbox.take() == []
