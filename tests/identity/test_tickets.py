"""Tickets: signed, short-lived, good once; verified without a look-up, wherever the key is."""

from base64 import urlsafe_b64decode
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Invalid, Limits
from holdfast.core.tokens import printable
from holdfast.identity import Approach, AuthContext, Busy, Identity, NotAuthentic, Tickets
from tests.cases import every_case
from tests.identity.plain import HERE, Clock

KEY, OTHER = bytes(range(32)), bytes(32)


async def door(*keys: bytes, wall_clock: Clock | None = None, ttl_s: float = 30.0, **lent: Any) -> Tickets:
    tickets = Tickets(keys or [KEY], ttl_s=ttl_s)
    await tickets.prepare(AuthContext(wall_clock=wall_clock or Clock(), **lent))
    return tickets


def admitted(identity: Identity | Awaitable[Identity]) -> Identity:
    """Outside a cluster no other node has to be asked."""
    assert isinstance(identity, Identity)
    return identity


async def test_a_ticket_signs_its_player_in_with_roles_and_says_when_it_was_issued() -> None:
    wall_clock = Clock()
    tickets = await door(wall_clock=wall_clock)
    ticket = tickets.issue("ada", ["gm", "dev"])
    wall_clock.now += 10

    identity = admitted(tickets.authenticate(ticket, HERE))

    assert identity.player_id == "ada"
    assert identity.roles == {"gm", "dev"}
    assert identity.issued_at == wall_clock.now - 10


async def test_a_ticket_is_good_once() -> None:
    tickets = await door()
    ticket = tickets.issue("ada")
    tickets.authenticate(ticket, HERE)

    with pytest.raises(NotAuthentic, match="get a new one"):
        tickets.authenticate(ticket, HERE)


async def test_two_tickets_of_one_player_are_both_good() -> None:
    tickets = await door()
    first, second = tickets.issue("ada"), tickets.issue("ada")

    assert first != second
    assert [admitted(tickets.authenticate(ticket, HERE)).player_id for ticket in (first, second)] == ["ada", "ada"]


async def test_another_process_with_the_key_issues_tickets_that_are_taken_here() -> None:
    backend = Tickets(keys=[KEY])
    node = Tickets(keys=KEY)

    assert admitted(node.authenticate(backend.issue("ada"), HERE)).player_id == "ada"


@pytest.mark.parametrize(("after_s", "is_good"), [(0.0, True), (29.9, True), (30.0, False), (1e9, False)])
async def test_a_ticket_expires(after_s: float, is_good: bool) -> None:
    wall_clock = Clock()
    tickets = await door(wall_clock=wall_clock)
    ticket = tickets.issue("ada")
    wall_clock.now += after_s

    if is_good:
        assert admitted(tickets.authenticate(ticket, HERE)).player_id == "ada"
    else:
        with pytest.raises(NotAuthentic):
            tickets.authenticate(ticket, HERE)


async def test_a_ticket_may_be_shorter_than_usual_but_not_longer_than_allowed() -> None:
    wall_clock = Clock()
    tickets = await door(wall_clock=wall_clock)

    assert tickets.issue_ticket("ada", ttl_s=5).expires_at == wall_clock.now + 5
    for ttl_s in (0, -1, float("nan"), Limits().ticket_max_s + 1):
        with pytest.raises(Invalid):
            tickets.issue("ada", ttl_s=ttl_s)


async def test_a_key_that_lets_tickets_live_longer_elsewhere_does_not_do_so_here() -> None:
    wall_clock = Clock()
    elsewhere = await door(wall_clock=wall_clock, limits=Limits(ticket_max_s=3600))
    here = await door(wall_clock=wall_clock)

    with pytest.raises(NotAuthentic):
        here.authenticate(elsewhere.issue("ada", ttl_s=3600), HERE)


async def test_keys_are_changed_by_putting_the_new_one_first() -> None:
    old, both, new = await door(OTHER), await door(KEY, OTHER), await door(KEY)
    before, after = old.issue("ada"), both.issue("bob")

    assert admitted(both.authenticate(before, HERE)).player_id == "ada"
    assert admitted(new.authenticate(after, HERE)).player_id == "bob"
    with pytest.raises(NotAuthentic):
        new.authenticate(old.issue("ada"), HERE)
    with pytest.raises(NotAuthentic):
        old.authenticate(both.issue("ada"), HERE)


async def test_without_keys_the_servers_secret_is_used_and_is_not_the_key_itself() -> None:
    lent, same, plain = Tickets(), Tickets(), Tickets(keys=[KEY])
    for each in (lent, same):
        await each.prepare(AuthContext(secret=KEY))

    assert admitted(same.authenticate(lent.issue("ada"), HERE)).player_id == "ada"
    with pytest.raises(NotAuthentic):
        plain.authenticate(lent.issue("ada"), HERE)


def test_without_any_key_nothing_can_be_issued() -> None:
    with pytest.raises(RuntimeError, match="need a key"):
        Tickets().issue("ada")


@every_case("place", range(0, 150, 7))
async def test_a_ticket_with_one_letter_changed_is_refused_and_the_real_one_is_still_good(place: int) -> None:
    tickets = await door()
    ticket = tickets.issue("ada")
    place %= len(ticket)
    letter = "A" if ticket[place] != "A" else "B"

    with pytest.raises(NotAuthentic):
        tickets.authenticate(ticket[:place] + letter + ticket[place + 1 :], HERE)

    assert admitted(tickets.authenticate(ticket, HERE)).player_id == "ada"


async def test_there_is_one_way_to_write_a_ticket() -> None:
    tickets = await door()
    ticket = tickets.issue("ada")

    for other in (f"{ticket}=", f"{ticket}.", f" {ticket}", ticket.replace(".", "=."), f"{ticket}\n"):
        with pytest.raises(NotAuthentic):
            tickets.authenticate(other, HERE)


async def test_a_payload_that_somebody_signed_with_nothing_is_refused() -> None:
    tickets = await door()
    payload, _, _ = tickets.issue("ada").partition(".")
    fields = msgspec.msgpack.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    fields[2] = "eve"
    forged = printable(msgspec.msgpack.encode(fields))

    for signature in ("", printable(bytes(32)), printable(b"")):
        with pytest.raises(NotAuthentic):
            tickets.authenticate(f"{forged}.{signature}", HERE)


@given(st.text(st.characters()))
def test_no_text_that_was_not_issued_is_accepted(credential: str) -> None:
    with pytest.raises(NotAuthentic):
        Tickets(keys=[KEY]).authenticate(credential, HERE)


async def test_used_tickets_are_remembered_until_they_expire_and_not_endlessly_many() -> None:
    wall_clock = Clock()
    tickets = await door(wall_clock=wall_clock, limits=Limits(tickets_used_max=3))
    for _ in range(3):
        tickets.authenticate(tickets.issue("ada", ttl_s=20), HERE)

    with pytest.raises(Busy):
        tickets.authenticate(tickets.issue("ada"), HERE)
    wall_clock.now += 20

    assert admitted(tickets.authenticate(tickets.issue("ada"), HERE)).player_id == "ada"


async def test_a_ticket_that_was_used_is_not_good_again_after_a_restart() -> None:
    wall_clock, now = Clock(), Clock()
    tickets = await door(wall_clock=wall_clock, now=now, ttl_s=300.0)
    used, unused = tickets.issue("ada"), tickets.issue("bob")
    tickets.authenticate(used, HERE)
    wall_clock.now += 1

    after = await door(wall_clock=wall_clock, now=now, ttl_s=300.0)

    # What was used is not known any more: of those from before, none is good.
    for ticket in (used, unused):
        with pytest.raises(NotAuthentic, match="get a new one"):
            after.authenticate(ticket, HERE)
    assert admitted(after.authenticate(tickets.issue("ada"), HERE)).player_id == "ada"


async def test_a_clock_that_was_wrong_at_the_start_does_not_keep_everybody_out_for_long() -> None:
    wall_clock, now = Clock(), Clock()
    tickets = await door(wall_clock=wall_clock, now=now)
    wall_clock.now -= 7200
    with pytest.raises(NotAuthentic):
        tickets.authenticate(tickets.issue("ada"), HERE)

    now.now += Limits().ticket_max_s

    assert admitted(tickets.authenticate(tickets.issue("ada"), HERE)).player_id == "ada"


async def test_a_clock_that_is_set_back_makes_no_used_ticket_good_again() -> None:
    wall_clock, now = Clock(), Clock()
    tickets = await door(wall_clock=wall_clock, now=now)
    now.now += Limits().ticket_max_s
    used = tickets.issue("ada")
    tickets.authenticate(used, HERE)
    wall_clock.now += 60
    # The first one is forgotten now, for it has expired.
    tickets.authenticate(tickets.issue("bob"), HERE)

    wall_clock.now -= 60

    with pytest.raises(NotAuthentic):
        tickets.authenticate(used, HERE)
    assert admitted(tickets.authenticate(tickets.issue("ada", ttl_s=90), HERE)).player_id == "ada"


@pytest.mark.parametrize(("ahead_s", "is_good"), [(30.0, True), (61.0, False), (1e6, False)])
async def test_a_backend_s_clock_may_be_ahead_but_a_ticket_is_not_for_next_year(ahead_s: float, is_good: bool) -> None:
    """It could be used until then, and no sign-out of before would count for it."""
    wall_clock = Clock()
    backend, node = await door(wall_clock=Clock(wall_clock.now + ahead_s)), await door(wall_clock=wall_clock)
    ticket = backend.issue("ada")

    if is_good:
        assert admitted(node.authenticate(ticket, HERE)).player_id == "ada"
    else:
        with pytest.raises(NotAuthentic):
            node.authenticate(ticket, HERE)


@pytest.mark.parametrize("player", ["", "x" * 129, "a\nb", "\ud800"])
async def test_what_cannot_be_a_player_gets_no_ticket(player: str) -> None:
    with pytest.raises(Invalid):
        (await door()).issue(player)


async def test_what_cannot_be_roles_gets_no_ticket() -> None:
    tickets = await door()

    for roles in ([""], ["a\nb"], [str(number) for number in range(33)]):
        with pytest.raises(Invalid):
            tickets.issue("ada", roles)


def test_settings_that_make_no_sense_are_refused() -> None:
    for keys in ([b"short"], [KEY, b"short"], b"short"):
        with pytest.raises(ValueError, match="at least 32 bytes"):
            Tickets(keys=keys)
    for ttl_s in (0, -1, float("nan"), Limits().ticket_max_s + 1):
        with pytest.raises(ValueError, match="ttl_s"):
            Tickets(keys=[KEY], ttl_s=ttl_s)


async def test_no_secret_is_shown() -> None:
    tickets = await door()
    issued = tickets.issue_ticket("ada")

    assert issued.ticket not in repr(issued)
    assert repr(KEY) not in repr(tickets)


async def test_the_address_does_not_matter() -> None:
    tickets = await door()

    assert admitted(tickets.authenticate(tickets.issue("ada"), Approach())).player_id == "ada"
