"""Planted bugs of the streams: numbers, windows, replays, acknowledgements, resyncs."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.client.asks import Asks
from holdfast.client.channels import Arrived, Channels
from holdfast.client.inbox import RoomInbox
from holdfast.client.protocol import ClientProtocol
from holdfast.core.block import Entry
from holdfast.core.broadcasts import Broadcasts
from holdfast.core.channel import Channel
from holdfast.core.codec import JSON, MSGPACK
from holdfast.core.messages import MessageAnswered, Untyped
from holdfast.core.session import Session
from holdfast.schemas.frames import BlockFrame, Data
from holdfast.server.admission.sign_in import Welcomer
from holdfast.server.rooms.delivery import Delivery, Resyncs
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.runner import RoomRunner
from tests.simulation.planting import mutant, patched

# More than any world ever sends.
_ENDLESS = 10**9

# Inward: what is accepted, applied and acknowledged


@mutant
def what_waits_for_its_player_to_read_waits_for_ever() -> Iterator[None]:
    def has_read(delivery: Delivery, player: Any) -> None:
        """The client has read, and nobody looks at what it said."""

    with patched(Delivery, has_read=has_read):
        yield


@mutant
def what_is_said_later_overtakes_what_waits() -> Iterator[None]:
    def _next(delivery: Delivery, outlet: Any) -> Any:
        outlet.backlog.messages.rotate(1)
        return right(delivery, outlet)

    right = Delivery._next
    with patched(Delivery, _next=_next):
        yield


@mutant
def others_speak_between_a_gap_and_the_state() -> Iterator[None]:
    def begin(resyncs: Resyncs, seat: Any) -> None:
        right(resyncs, seat)
        resyncs.unmute(seat)

    right = Resyncs.begin
    with patched(Resyncs, begin=begin):
        yield


@mutant
def doubles_are_applied_again() -> Iterator[None]:
    def accept(channel: Channel, seq: int) -> bool:
        return seq <= channel.accepted or right(channel, seq)

    right = Channel.accept
    with patched(Channel, accept=accept):
        yield


@mutant
def gaps_are_accepted() -> Iterator[None]:
    def accept(channel: Channel, seq: int) -> bool:
        channel.accepted = max(channel.accepted, seq - 1)
        return right(channel, seq)

    right = Channel.accept
    with patched(Channel, accept=accept):
        yield


@mutant
def the_server_acknowledges_before_it_applies() -> Iterator[None]:
    def deliver(delivery: Delivery, seat: Any, frame: Any, *rest: Any) -> None:
        seat.outlet.applied(frame.seq)
        right(delivery, seat, frame, *rest)

    right = Delivery.deliver
    with patched(Delivery, deliver=deliver):
        yield


@mutant
def the_welcome_tells_what_was_accepted_as_applied() -> Iterator[None]:
    def welcome(welcomer: Welcomer, connection: Any, session: Session, *rest: Any, **options: Any) -> None:
        truth = [(channel, channel.applied) for channel in session.channels()]
        for channel, _ in truth:
            channel.applied = channel.accepted
        right(welcomer, connection, session, *rest, **options)
        for channel, applied in truth:
            channel.applied = applied

    right = Welcomer.welcome
    with patched(Welcomer, welcome=welcome):
        yield


@mutant
def the_client_acknowledges_before_it_processes() -> Iterator[None]:
    def _on_data(protocol: ClientProtocol, frame: Any) -> Any:
        events = right(protocol, frame)
        for event in events:
            if isinstance(event, Arrived):
                protocol.processed(event)
        return events

    right = ClientProtocol._on_data
    with patched(ClientProtocol, _on_data=_on_data):
        yield


# Outward: numbers, the window, what is kept and sent again


@mutant
def numbers_of_a_former_process_are_used_again() -> Iterator[None]:
    def nothing(*_: Any) -> None: ...

    with patched(Channel, skip_to=nothing, fill_to=nothing):
        yield


@mutant
def a_replay_leaves_one_out() -> Iterator[None]:
    def resume(channel: Channel, generation: int, received: int | None) -> int | None:
        replayed = right(channel, generation, received)
        if replayed and channel._waiting:
            # The number is given to the message after it, so the other end does not see a gap.
            del channel._waiting[0]
            channel.last_seq -= 1
        return replayed

    right = Channel.resume
    with patched(Channel, resume=resume):
        yield


@mutant
def a_replay_begins_one_too_late() -> Iterator[None]:
    def resume(channel: Channel, generation: int, received: int | None) -> int | None:
        replayed = right(channel, generation, received)
        if replayed:
            channel.sent += 1
        return replayed

    right = Channel.resume
    with patched(Channel, resume=resume):
        yield


@mutant
def the_client_forgets_its_outbox_when_it_resumes() -> Iterator[None]:
    def resume(channels: Channels, *arguments: Any) -> Any:
        for channel in channels:
            channel.restore_outward(channel.acked, [])
        return right(channels, *arguments)

    right = Channels.resume
    with patched(Channels, resume=resume):
        yield


@mutant
def what_is_sent_again_is_reordered() -> Iterator[None]:
    def resume(channel: Channel, generation: int, received: int | None) -> int | None:
        replayed = right(channel, generation, received)
        waiting = channel._waiting
        if replayed and replayed > 1 and waiting:
            waiting[0], waiting[1] = waiting[1], waiting[0]
        return replayed

    right = Channel.resume
    with patched(Channel, resume=resume):
        yield


@mutant
def an_overflow_drops_messages_silently() -> Iterator[None]:
    def keep(channel: Channel, entry: Entry) -> bool:
        return channel.kept >= channel._kept_messages_max or right(channel, entry)

    right = Channel.keep
    with patched(Channel, keep=keep):
        yield


@mutant
def the_window_is_endless() -> Iterator[None]:
    def __init__(channel: Channel, *arguments: Any) -> None:  # noqa: N807 - it takes the place of one
        right(channel, *arguments)
        channel.window_messages_max = channel.window_bytes_max = _ENDLESS

    right = Channel.__init__
    with patched(Channel, __init__=__init__):
        yield


@mutant
def what_is_kept_is_endless() -> Iterator[None]:
    def __init__(channel: Channel, *arguments: Any) -> None:  # noqa: N807 - it takes the place of one
        right(channel, *arguments)
        channel._kept_messages_max = channel._kept_bytes_max = _ENDLESS

    right = Channel.__init__
    with patched(Channel, __init__=__init__):
        yield


# Blocks: what is said to many


@mutant
def what_is_said_to_one_overtakes_what_was_said_to_all() -> Iterator[None]:
    def send(outlet: ChannelOutlet, message: Any) -> None:
        broadcasts, outlet.broadcasts = outlet.broadcasts, None
        right(outlet, message)
        outlet.broadcasts = broadcasts

    right = ChannelOutlet.send
    with patched(ChannelOutlet, send=send):
        yield


@mutant
def one_of_the_clients_of_a_block_is_left_out() -> Iterator[None]:
    def _open(broadcasts: Broadcasts, seats: Any) -> None:
        right(broadcasts, seats)
        for _, outlets in broadcasts._clients.values():
            del outlets[2:3]

    right = Broadcasts._open
    with patched(Broadcasts, _open=_open):
        yield


@mutant
def a_client_reads_a_block_from_its_end() -> Iterator[None]:
    def data(block: BlockFrame) -> list[Data]:
        return right(replace(block, messages=block.messages[::-1]))

    right = BlockFrame.data
    with patched(BlockFrame, data=data):
        yield


# Answers


@mutant
def an_answer_goes_to_whoever_asked_first() -> Iterator[None]:
    def answered(asks: Asks, number: int, message: Any) -> bool:
        return right(asks, min(asks._unanswered, default=number), message)

    right = Asks.answered
    with patched(Asks, answered=answered):
        yield


@mutant
def whoever_asked_is_not_told_that_the_answer_is_lost() -> Iterator[None]:
    def lost(asks: Asks, *_: Any) -> None: ...

    with patched(Asks, lost=lost):
        yield


@mutant
def an_ask_is_answered_in_the_name_of_the_message_before_it() -> Iterator[None]:
    def _answered(delivery: Delivery, error: Any, result: Any, *rest: Any) -> None:
        right(delivery, error, last.get(delivery, result), *rest)
        last[delivery] = result

    right = Delivery._answered
    last: dict[Delivery, Any] = {}
    with patched(Delivery, _answered=_answered):
        yield


@mutant
def an_answer_is_also_a_message() -> Iterator[None]:
    def pass_over(inbox: RoomInbox, arrived: Arrived) -> None:
        if arrived.name == MessageAnswered.wire_name:
            codec = JSON if bytes(arrived.body).startswith(b"{") else MSGPACK
            body = codec.body_decoder(Any).decode(arrived.body)
            inbox.put(arrived, Untyped(body["type"], body["body"]))
        else:
            right(inbox, arrived)

    right = RoomInbox.pass_over
    with patched(RoomInbox, pass_over=pass_over):
        yield


@mutant
def an_answer_counts_as_read_with_all_before_it() -> Iterator[None]:
    def pass_over(inbox: RoomInbox, arrived: Arrived) -> None:
        inbox._processed(arrived)

    with patched(RoomInbox, pass_over=pass_over):
        yield


# Resync


@mutant
def a_resync_is_not_told_to_the_reader() -> Iterator[None]:
    def restart(inbox: RoomInbox, *_: Any) -> None:
        inbox._reliable.clear()

    with patched(RoomInbox, restart=restart):
        yield


@mutant
def a_resync_sends_no_state() -> Iterator[None]:
    def returned(runner: RoomRunner, player: Any, _: bool) -> None:
        right(runner, player, False)

    right = RoomRunner.returned
    with patched(RoomRunner, returned=returned):
        yield


@mutant
def a_saved_session_forgets_that_it_was_resynced() -> Iterator[None]:
    def load(channels: Channels, state: Any) -> None:
        right(channels, state)
        channels._restarted.clear()

    right = Channels.load
    with patched(Channels, load=load):
        yield
