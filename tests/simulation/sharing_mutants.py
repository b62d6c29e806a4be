"""Planted bugs of shared state: in what is compared, merged, gated, kept from others, and followed by clients."""
# ruff: noqa: SLF001 - a planted bug reaches inside

from collections.abc import Iterator
from typing import Any

from holdfast.client.inbox import RoomInbox
from holdfast.client.shared import SharedState
from holdfast.core.block import Entry, messages_of
from holdfast.core.messages import STATE
from holdfast.server.durability.gate import GatedOutlet
from holdfast.server.rooms.outlet import ChannelOutlet
from holdfast.server.rooms.shared_views import SharedViews
from holdfast.server.rooms.sharing import Sharing, StateFollower
from holdfast.state import FORGET_FIRST, Audience, Mirror, SharedPlan
from holdfast.state import mirror as mirror_module
from tests.simulation.planting import durable_mutant, mutant, patched

# Where the parts of a node are.
_INTO, _GONE, _SPLICE, _NTH = 1, 2, 3, 4


def _strip(node: list[Any], part: int) -> None:
    """Take one part out of a node, and out of all in it."""
    if len(node) > part:
        node[part] = []
    for nested in (_INTO, _NTH):
        for inner in node[nested][1::2] if len(node) > nested else ():
            _strip(inner, part)


def _without(part: int) -> Iterator[None]:
    def diff(plan: SharedPlan, old: Any, new: Any) -> Any:
        node = right(plan, old, new)
        if node is not None:
            _strip(node, part)
        return node

    right = SharedPlan.diff
    with patched(SharedPlan, diff=diff):
        yield


def _count_as_up_to_date(sharing: Sharing, follower: StateFollower) -> None:
    if follower.seen is not None and sharing._views.now is not None:
        follower.seen = follower.seen._replace(view=sharing._views.now)


# What has changed


@mutant
def what_is_taken_out_of_a_dict_is_not_told() -> Iterator[None]:
    yield from _without(_GONE)


@mutant
def elements_that_come_and_go_are_not_told() -> Iterator[None]:
    yield from _without(_SPLICE)


@mutant
def changes_inside_of_values_are_not_told() -> Iterator[None]:
    yield from _without(_INTO)


# What is merged for clients that are behind


@mutant
def a_client_that_is_behind_is_sent_the_last_change_only() -> Iterator[None]:
    def look(views: SharedViews) -> None:
        before = views.now
        right_look(views)
        if views.now is not before:
            former[views.now] = before

    def _encoded(views: SharedViews, plan: Any, old: Any, new: Any, codec: Any) -> Any:
        return right_encoded(views, plan, former.get(new) or old if old is not new else old, new, codec)

    former: dict[Any, Any] = {}
    right_look, right_encoded = SharedViews.look, SharedViews._encoded
    with patched(SharedViews, look=look, _encoded=_encoded):
        yield


@mutant
def a_change_is_kept_encoded_when_there_is_a_newer_one() -> Iterator[None]:
    def _encoded(views: SharedViews, plan: Any, old: Any, new: Any, codec: Any) -> Any:
        key = old, codec
        if old is not new and key not in kept:
            kept[key] = right(views, plan, old, new, codec)
        return kept[key] if old is not new else None

    kept: dict[Any, Any] = {}
    right = SharedViews._encoded
    with patched(SharedViews, _encoded=_encoded):
        yield


@mutant
def a_client_whose_view_is_forgotten_counts_as_up_to_date() -> Iterator[None]:
    def _forget_old_views(sharing: Sharing) -> None:
        for follower in sharing._followers.values():
            _count_as_up_to_date(sharing, follower)

    with patched(Sharing, _forget_old_views=_forget_old_views):
        yield


@mutant
def what_changes_while_a_client_is_away_is_not_sent_later() -> Iterator[None]:
    def _sync(sharing: Sharing, now: float) -> None:
        right(sharing, now)
        for follower in sharing._followers.values():
            if follower.session.connection is None:
                _count_as_up_to_date(sharing, follower)

    right = Sharing._sync
    with patched(Sharing, _sync=_sync):
        yield


@mutant
def a_stream_that_begins_anew_goes_on_with_changes() -> Iterator[None]:
    with patched(StateFollower, restart=lambda _: None):
        yield


# In which order


@mutant
def messages_leave_before_the_change_of_their_turn() -> Iterator[None]:
    def turn_over(sharing: Sharing) -> None:
        sharing._buffer.write()
        right(sharing)
        sharing._sync(sharing._clock.now())

    right = Sharing.turn_over
    with patched(Sharing, turn_over=turn_over):
        yield


@mutant
def changes_of_a_turn_that_is_half_done_are_sent() -> Iterator[None]:
    def has_read(sharing: Sharing, seat: Any) -> None:
        follower = sharing._follower_of(seat)
        if follower is not None and follower.can_read(seat):
            sharing._look()
            sharing.catch_up(follower)

    with patched(Sharing, has_read=has_read):
        yield


# Who may see it


@mutant
def everybody_sees_what_is_private() -> Iterator[None]:
    def owner_sees(plan: SharedPlan, roots: Any, audience: Any = Audience.EVERYBODY, **options: Any) -> None:
        wrong = {name: Audience.OWNER if name == "players" else Audience.EVERYBODY for name in roots}
        right(plan, roots, wrong if "players" in roots else audience, **options)

    right = SharedPlan.__init__
    with patched(SharedPlan, __init__=owner_sees):
        yield


@mutant
def players_are_sent_what_another_keeps_to_themselves() -> Iterator[None]:
    def _made_for(views: SharedViews, plan: Any, player: Any) -> Any:
        return right(views, plan, next(iter(views._seats.occupied)).player if player is not None else None)

    right = SharedViews._made_for
    with patched(SharedViews, _made_for=_made_for):
        yield


# What is saved


@durable_mutant
def changes_leave_before_they_are_saved() -> Iterator[None]:
    def write(outlet: GatedOutlet, entry: Entry) -> None:
        (ChannelOutlet.write if messages_of([entry])[0][0] == STATE else right)(outlet, entry)

    right = GatedOutlet.write
    with patched(GatedOutlet, write=write):
        yield


@durable_mutant
def a_client_of_the_former_server_is_not_sent_the_view_again() -> Iterator[None]:
    def _write(sharing: Sharing, follower: StateFollower, seat: Any) -> None:
        now = sharing._views.now
        if follower.seen is None and follower.outlet.channel.last_seq > 1 and now is not None:
            follower.seen = sharing._views.seen_from(seat, now)
        right(sharing, follower, seat)

    right = Sharing._write
    with patched(Sharing, _write=_write):
        yield


# What a client makes of it


@mutant
def a_client_applies_changes_when_they_arrive() -> Iterator[None]:
    def put_change(inbox: RoomInbox, arrived: Any, body: Any) -> None:
        inbox._apply(body)
        inbox.pass_over(arrived)

    with patched(RoomInbox, put_change=put_change):
        yield


@mutant
def a_view_in_parts_is_used_before_it_is_whole() -> Iterator[None]:
    with patched(mirror_module, MORE_FOLLOWS=0):
        yield


@mutant
def a_client_keeps_players_who_are_not_in_a_new_view() -> Iterator[None]:
    def _receive(mirror: Mirror, body: Any) -> Any:
        before = mirror.root.get("players", {})
        result = right(mirror, body)
        if body[0] & FORGET_FIRST and "players" in mirror.root:
            mirror.root["players"] = {**before, **mirror.root["players"]}
        return result

    right = Mirror._receive
    with patched(Mirror, _receive=_receive):
        yield


@mutant
def a_client_does_not_ask_for_what_it_has_lost() -> Iterator[None]:
    with patched(SharedState, ask_if_lost=lambda _: None):
        yield


@mutant
def a_gap_is_forgotten_when_changes_after_it_are_applied() -> Iterator[None]:
    def _process(inbox: RoomInbox) -> None:
        right(inbox)
        restarts = [each for each in inbox._reliable if each.arrived is not None and not each.arrived.seq]
        if restarts and not inbox._has_reader and restarts[0].arrived is not None:
            inbox._processed(restarts[0].arrived)

    right = RoomInbox._process
    with patched(RoomInbox, _process=_process):
        yield
