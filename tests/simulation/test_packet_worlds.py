"""A modest number of worlds of UDP packets, and planted bugs that they find; `make sim` runs many more."""

from collections import Counter
from collections.abc import Callable

import pytest

from holdfast.transports.enet.inbound import Inbound
from holdfast.transports.udp.client import ClientPath
from holdfast.transports.udp.seal import Seal
from holdfast.transports.udp.server import UdpPaths
from tests.simulation.packet_worlds import simulate_packets

SEEDS = 12
HUNTED = 40
# What a dozen worlds must have met.
MET = (
    *("aims over udp", "aims over memory", "datagrams late", "datagrams unknown", "enet packets", "enet datagrams"),
    *(f"packets: {what}" for what in ("block", "crash", "cut", "half-open", "move", "replay", "takeover")),
)


def test_no_world_breaks_a_promise_and_together_they_meet_everything() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        report = simulate_packets(seed)
        counts += report.counts
        assert report.violations == [], f"repeat: python -m tests.simulation --seed {seed}"

    assert [name for name in MET if not counts[name]] == []


def test_the_same_seed_gives_the_same_world() -> None:
    assert simulate_packets(5) == simulate_packets(5)


Plant = Callable[[pytest.MonkeyPatch], None]


def datagrams_are_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Seal.open

    def opened(seal: Seal, data: bytes) -> object:
        seal._newest = dict.fromkeys(seal._newest, 0)  # noqa: SLF001 - the bug
        return right(seal, data)

    monkeypatch.setattr(Seal, "open", opened)


def every_address_is_taken_for_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UdpPaths, "is_cookie", lambda *_: True)


def a_client_gives_up_udp_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ClientPath._ping  # noqa: SLF001 - the bug

    def ping(path: ClientPath) -> None:
        if not path._pings or path.is_open:  # noqa: SLF001 - the bug
            right(path)

    monkeypatch.setattr(ClientPath, "_ping", ping)


def enet_forgets_what_came_early(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Inbound.accept

    def accept(inbound: Inbound, *arguments: object) -> bool:
        inbound._early.clear()  # noqa: SLF001 - the bug
        return right(inbound, *arguments)  # type: ignore[arg-type]  # as they are

    monkeypatch.setattr(Inbound, "accept", accept)


@pytest.mark.parametrize(
    "plant",
    [
        datagrams_are_opened_again,
        every_address_is_taken_for_proven,
        a_client_gives_up_udp_for_good,
        enet_forgets_what_came_early,
    ],
)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    for seed in range(HUNTED):
        try:
            if simulate_packets(seed).violations:
                return
        except AssertionError:
            return  # an assertion of the code, or of the world, has found it

    pytest.fail(f"{HUNTED} worlds have not found it")
