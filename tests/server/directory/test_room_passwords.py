"""Passwords of rooms: how they are kept, and that to guess them is slow, for whoever guesses and for nobody else."""

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import cast

import pytest

from holdfast import Limits
from holdfast.core.errors import NotFound, Throttled, WrongPassword
from holdfast.core.room import context_of
from holdfast.core.room_listing import RoomListing
from holdfast.core.session import Session
from holdfast.schemas.room import PasswordHash
from holdfast.server.directory.room_passwords import CODES, Guesses, RoomPasswords
from tests.identity.plain import PlainHashing
from tests.server.directory.seats import a_room, arena, patient, served
from tests.server.durability.bench import in_virtual_time
from tests.server.world import World, chat

# How they are kept


async def test_a_password_is_kept_as_argon2id(world: World) -> None:
    server = await world.serve(chat())
    ada, bob = await world.connect(server), await world.connect(server)
    info = await ada.create("chat", password="sesame")

    with pytest.raises(WrongPassword):
        await bob.join(info.id, password="Sesame")
    await bob.join(info.id, password="sesame")

    room = server.rooms.get(info.id)
    assert room is not None
    password = context_of(room).listing.password
    assert password is not None
    assert password.argon2.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert "sesame" not in repr(password)


async def test_after_a_restart_argon2_decides_until_somebody_was_right() -> None:
    passwords = RoomPasswords(Limits(), Random(0))
    kept = await passwords.keep("sesame")
    passwords.close()
    assert kept is not None

    restarted = RoomPasswords(Limits(), Random(1))
    listing = RoomListing(password=kept)
    answers = [await restarted.is_right(listing, text) for text in ("", "wrong", "sesame", "wrong", "sesame")]
    restarted.close()

    assert answers == [False, False, True, False, True]


async def test_once_somebody_was_right_nothing_expensive_is_done() -> None:
    hashing = PlainHashing()
    passwords = RoomPasswords(Limits(), Random(0), hashing)
    listing = RoomListing(password=await passwords.keep("sesame"))

    for text in ("wrong", "sesame", "sesame", "wrong", "other"):
        await passwords.is_right(listing, text)
    assert len(hashing.verified) == 2

    listing.password = await passwords.keep("another")
    assert not await passwords.is_right(listing, "sesame")
    assert await passwords.is_right(listing, "another")


async def test_no_password_is_kept_as_none_and_old_ones_still_count() -> None:
    passwords = RoomPasswords(Limits(), Random(0), PlainHashing())
    # As a record of before: SHA-256 of salt and password.
    old = RoomListing(password=PasswordHash(b"salt", sha256(b"saltsesame").digest()))

    assert await passwords.keep("") is None
    assert await passwords.is_right(RoomListing(), "anything")
    assert [await passwords.is_right(old, text) for text in ("Sesame", "\ud800", "sesame", "wrong")] == [
        False,
        False,
        True,
        False,
    ]


# How fast they may be guessed


@in_virtual_time
async def test_a_child_who_guesses_keeps_no_other_of_the_school_out() -> None:
    async with served(arena(max_players=40), limits=patient()) as server:
        room = await a_room(server, "teacher", password="swordfish")
        wrong, refused = 0, 0
        for number in range(60):
            guesser = await server.connect(f"guesser {number}")
            for guess in range(3):
                try:
                    await guesser.join(room.id, password=f"guess {number} {guess}")
                except WrongPassword:
                    wrong += 1
                except Throttled:
                    refused += 1
            await guesser.close()
        assert refused > 60

        pupils = [await server.connect(f"pupil {number}") for number in range(20)]
        for pupil in pupils:
            assert (await pupil.join(room.id, password="swordfish")).id == room.id


@in_virtual_time
async def test_the_right_code_gets_in_too() -> None:
    async with served(arena(), limits=patient()) as server:
        room = await a_room(server, "teacher", visibility="private")
        for number in range(40):
            guesser = await server.connect(f"guesser {number}")
            with pytest.raises((NotFound, Throttled)):
                await guesser.join(code=f"{number:06}".translate(str.maketrans("012568", "CDFGHJ")))
            await guesser.close()

        pupil = await server.connect("pupil")

        assert (await pupil.join(code=context_of(room).listing.code)).id == room.id


@in_virtual_time
async def test_several_guesses_at_once_are_not_checked_at_once() -> None:
    limits = patient(guesses_per_address_burst=1, guesses_per_address_per_s=0.2)
    async with served(arena(), limits=limits) as server:
        room = await a_room(server, "ada", password="swordfish")
        eve = await server.connect("eve")

        answers = await asyncio.gather(
            *(eve.join(room.id, password=guess) for guess in "abcdef"), return_exceptions=True
        )

        assert [type(answer) for answer in answers].count(WrongPassword) == 1


@dataclass
class Guesser:
    """As much of a session as guesses need."""

    address: str
    wrong_guesses: int = 0


@pytest.mark.parametrize("addresses", [1, 5, 1000])
def test_with_any_number_of_sessions_and_addresses_a_room_is_guessed_at_its_pace(addresses: int) -> None:
    limits = Limits()
    guesses = Guesses(limits)
    checked = 0
    seconds = 3600

    for second in range(seconds):
        for number in range(20):
            session = cast("Session", Guesser(f"10.0.{(second * 20 + number) % addresses // 256}.{number % 256}"))
            for _ in range(3):
                checked += guesses.wait_s(session, "room", float(second)) is not None

    of_room = limits.guesses_per_room_burst + limits.guesses_per_room_per_s * (seconds + limits.guess_wait_max_s)
    assert checked <= of_room + 1


def test_an_address_that_guesses_at_one_room_is_no_slower_at_another_nor_is_another_there() -> None:
    guesses = Guesses(Limits())
    for _ in range(100):
        guesses.wait_s(cast("Session", Guesser("192.0.2.1")), "room", 0.0)

    assert guesses.wait_s(cast("Session", Guesser("192.0.2.1")), "room", 0.0) is None
    for address, place in (("192.0.2.1", "other"), ("192.0.2.2", "room"), ("192.0.2.1", CODES)):
        assert guesses.wait_s(cast("Session", Guesser(address)), place, 0.0) == 0.0


def test_what_is_remembered_of_guesses_is_bounded() -> None:
    guesses = Guesses(Limits(guess_counters_max=10))

    for number in range(100):
        guesses.wait_s(cast("Session", Guesser("192.0.2.1")), f"room {number}", 0.0)

    assert len(guesses) == 10
