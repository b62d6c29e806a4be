"""Real argon2id, off the event loop, in a queue that is not endless. Settings here are cheap; their default is not."""

import asyncio
import threading
from dataclasses import replace

import pytest

from holdfast.core.limits import Limits
from holdfast.identity.hashing import Argon2Hashing, Argon2Settings
from holdfast.identity.port import Busy

CHEAP = Argon2Settings(memory_kib=64, passes=1)
LIMITS = Limits()


async def test_a_password_is_known_by_its_hash() -> None:
    hashing = Argon2Hashing(CHEAP, LIMITS)

    known = await hashing.hash(b"correct horse")

    assert known.startswith("$argon2id$v=19$m=64,t=1,p=1$")
    assert await hashing.verify(known, b"correct horse")
    assert not await hashing.verify(known, b"Correct horse")
    assert not await hashing.verify(known, b"")


async def test_two_hashes_of_one_password_are_different() -> None:
    hashing = Argon2Hashing(CHEAP, LIMITS)

    assert await hashing.hash(b"the same") != await hashing.hash(b"the same")


@pytest.mark.parametrize("password", [b"", b"anything"])
async def test_nobodys_hash_is_no_password_s(password: bytes) -> None:
    assert not await Argon2Hashing(CHEAP, LIMITS).verify("", password)


@pytest.mark.parametrize("known", ["garbage", "$argon2id$v=19$m=64,t=1,p=1$AAAA", "$argon2id$v=19$m=x$AAAA$AAAA"])
async def test_a_damaged_hash_opens_nothing_and_is_made_anew(known: str) -> None:
    hashing = Argon2Hashing(CHEAP, LIMITS)

    assert not await hashing.verify(known, b"anything")
    assert hashing.is_outdated(known)


async def test_other_settings_make_a_hash_outdated() -> None:
    known = await Argon2Hashing(CHEAP, LIMITS).hash(b"correct horse")
    dearer = Argon2Hashing(replace(CHEAP, passes=2), LIMITS)

    assert not Argon2Hashing(CHEAP, LIMITS).is_outdated(known)
    assert dearer.is_outdated(known)
    assert await dearer.verify(known, b"correct horse")


def test_the_default_is_owasps_least() -> None:
    assert Argon2Settings() == Argon2Settings(memory_kib=19 * 1024, passes=2, lanes=1)


@pytest.mark.parametrize("wrong", [{"passes": 0}, {"lanes": 0}, {"memory_kib": 7}])
def test_settings_that_argon2_cannot_have_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="argon2 needs"):
        Argon2Settings(**wrong)


class Slow(Argon2Hashing):
    """Works only when the test lets it."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(CHEAP, limits)
        self.may_go_on = threading.Event()
        self.threads: set[str] = set()
        self.at_work = threading.Semaphore(0)

    def _is(self, known: str, password: bytes) -> bool:
        self.threads.add(threading.current_thread().name)
        self.at_work.release()
        self.may_go_on.wait(10)
        return super()._is(known, password)


async def test_so_many_are_at_work_so_many_wait_and_the_next_is_told_to_come_back() -> None:
    hashing = Slow(replace(LIMITS, password_checks_max=2, password_checks_waiting_max=3))
    checks = [asyncio.create_task(hashing.verify("", b"x")) for _ in range(5)]
    for _ in range(2):
        await asyncio.to_thread(hashing.at_work.acquire, timeout=10)

    with pytest.raises(Busy) as busy:
        await hashing.verify("", b"x")

    assert busy.value.retry_after_s > 0
    # The loop was free all the while, and no third one was at work.
    assert len(hashing.threads) == 2
    assert threading.current_thread().name not in hashing.threads
    hashing.may_go_on.set()
    assert await asyncio.gather(*checks) == [False] * 5
    assert len(hashing.threads) == 2
    # There is space again.
    assert not await hashing.verify("", b"x")
    hashing.close()


async def test_who_does_not_wait_any_more_gives_the_place_in_the_queue_back() -> None:
    hashing = Slow(replace(LIMITS, password_checks_max=1, password_checks_waiting_max=1))
    working, waiting = (asyncio.create_task(hashing.verify("", b"x")) for _ in range(2))
    await asyncio.to_thread(hashing.at_work.acquire, timeout=10)

    waiting.cancel()
    await asyncio.wait([waiting])
    another = asyncio.create_task(hashing.verify("", b"x"))
    await asyncio.sleep(0)

    hashing.may_go_on.set()
    assert not await working
    assert not await another
    hashing.close()
