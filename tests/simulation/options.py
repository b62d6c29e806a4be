"""What a seed decides before anything happens: how many players, how bad the network, how tight the limits.

In the worlds of odd seeds the server has a store, its rooms are of every durability, and it does not live long.
"""

from dataclasses import dataclass, fields, replace
from random import Random
from typing import Literal

from holdfast import Limits
from holdfast.core.limits import KIB
from holdfast.core.room import Durability
from holdfast.testing import UNLIMITED, generous

STEPS = 30
# The part of the kinds of rooms that share their state.
SHARED = 0.6
# The part of them whose failed turns are undone, and the part whose turns are recorded.
TRANSACTIONAL = 0.4
RECORDED = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The store of a world, and the fate of its servers."""

    # Each call takes this long, and up to the jitter more.
    latency_s: float
    jitter_s: float
    # The mean time between two faults of the server or its store.
    outage_s: float
    checkpoint_s: float
    recovery: Literal["eager", "lazy"]
    # Whether older copies of the store are restored.
    has_rollbacks: bool
    # Whether servers fall as soon as a player has used up a token, which somebody else then presents. Nothing is sent
    # to sessions there: each such message would save the session, and with it that the token is used up.
    has_robberies: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One simulated world. Everything else that is left to chance follows from its seed too."""

    seed: int
    # What each player does before the world heals.
    steps: int = STEPS
    players: int
    # Each payload takes this long, and up to the jitter more.
    latency_s: float
    jitter_s: float
    # The mean time between two faults, somewhere.
    fault_s: float
    grace_s: float
    # How long a handler of a slow room takes at most.
    handler_s: float
    tick_hz: float
    limits: Limits
    # Of each kind of rooms.
    durability: tuple[Durability, Durability, Durability, Durability] = ("memory", "memory", "memory", "memory")
    store: StoreOptions | None = None
    # Whether they share their state, and how often without a message; 0: after each turn.
    shares: tuple[bool, bool, bool, bool] = (False, False, False, False)
    sync_hz: float = 0
    # Whether their turns never happened if they fail.
    transactional: tuple[bool, bool, bool, bool] = (False, False, False, False)

    # For how long their turns are recorded; 0: not at all.
    record_s: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    def __str__(self) -> str:
        """Each option; of the limits those that are not the usual ones."""
        limits = {
            field.name: value
            for field in fields(Limits)
            if (value := getattr(self.limits, field.name)) != getattr(UNLIMITED, field.name)
        }
        options = {field.name: getattr(self, field.name) for field in fields(self)} | {"limits": limits}
        return ", ".join(f"{name}={value}" for name, value in options.items())

    @property
    def has_robberies(self) -> bool:
        return self.store is not None and self.store.has_robberies

    @property
    def reads_slowly(self) -> bool:
        """Whether the server hears less than everybody acknowledges together, if all rooms tick."""
        return self.limits.bytes_burst == 1

    @classmethod
    def drawn(cls, seed: int, steps: int = STEPS) -> "Options":
        """The world of this seed."""
        random = Random(f"{seed}/shares")
        first, second, third, fourth = (random.random() < SHARED for _ in range(4))
        shares = (first, second, third, fourth)
        sync_hz = random.choice([0, 0, 1.5])
        first, second, third, fourth = (random.random() < TRANSACTIONAL for _ in range(4))
        transactional = (first, second, third, fourth)
        options = replace(cls._drawn(seed, steps), shares=shares, sync_hz=sync_hz, transactional=transactional)
        random = Random(f"{seed}/records")
        first_s, second_s, third_s, fourth_s = (30.0 * (random.random() < RECORDED) for _ in range(4))
        options = replace(options, record_s=(first_s, second_s, third_s, fourth_s))
        return options.with_store() if seed % 2 else options

    def with_store(self) -> "Options":
        """The same world, with a store."""
        random = Random(f"{self.seed}/store")
        durability: list[Durability] = ["commit", "commit", "commit", "checkpoint", "memory"]
        second, third, fourth = random.choices(durability, k=3)
        return replace(
            self,
            durability=("commit", second, third, fourth),
            store=StoreOptions(
                latency_s=random.choice([0.001, 0.01, 0.05]),
                jitter_s=random.choice([0.0, 0.02]),
                outage_s=random.choice([1.5, 3.0, 6.0]),
                checkpoint_s=random.choice([0.5, 2.0]),
                recovery=random.choice(["eager", "lazy"]),
                has_rollbacks=Random(f"{self.seed}/rollbacks").random() < 1 / 3,
            ),
            limits=replace(
                self.limits,
                commit_batches_max=random.choice([2, 1024]),
                commit_bytes_max=random.choice([4 * KIB, 4096 * KIB]),
                commit_timeout_s=1.0,
                store_patience_s=1.0,
                store_retry_s=0.1,
                record_state_bytes_max=random.choice([64, 4 * KIB]),
                effect_retry_max_s=2.0,
            ),
        )

    @classmethod
    def _drawn(cls, seed: int, steps: int) -> "Options":
        random = Random(f"{seed}/options")
        window = random.choice([8, 16, 32])
        return cls(
            seed=seed,
            steps=steps,
            players=random.randint(3, 5),
            latency_s=random.choice([0.001, 0.02, 0.08]),
            jitter_s=random.choice([0.0, 0.01, 0.1]),
            fault_s=random.choice([0.3, 0.6, 1.2]),
            grace_s=random.choice([5.0, 8.0]),
            handler_s=random.choice([0.05, 0.2]),
            tick_hz=random.choice([2.0, 5.0]),
            limits=_unhurried(
                Limits(
                    payload_bytes_max=random.choice([2 * KIB, 64 * KIB]),
                    batch_bytes_max=Random(f"{seed}/batches").choice([200, 1000, 4 * KIB]),
                    handshake_s=1.5,
                    hello_s=1.5,
                    auth_s=2.0,
                    # Less or more than the last turns of a slow room take: the present one, and one for each seat.
                    close_s=Random(f"{seed}/close").choice([0.5, 2.0]),
                    window_messages_max=window,
                    window_bytes_max=random.choice([2 * KIB, 256 * KIB]),
                    kept_messages_max=2 * window + random.choice([0, 32]),
                    kept_bytes_max=random.choice([16 * KIB, 1024 * KIB]),
                    closing_channels_max=3,
                    ack_messages=random.choice([1, 4, 32]),
                    ack_s=0.05,
                    client_ack_s=0.05,
                    unread_s=Random(f"{seed}/unread").choice([1.0, 8.0]),
                    ping_s=1.0,
                    silence_s=3.2,
                    write_buffer_bytes_max=16 * KIB,
                    requests_in_flight_max=4,
                    replies_kept_max=6,
                    sessions_per_player_max=4,
                    admit_s=2.0,
                    turn_s=5.0,
                    unjoined_s=10.0,
                    # A crash may leave a seat reserved for somebody who never comes back.
                    reservation_max_s=10.0,
                    # A few blocks of a room, and of all rooms.
                    recording_bytes_max=8 * KIB,
                    recordings_bytes_max=24 * KIB,
                    # What has settled lies beside a room's record, or all of it is in there.
                    record_list_bytes_max=Random(f"{seed}/lists").choice([0, 2 * KIB]),
                ),
                frames_at_once_max=random.choice([3, 1000]),
                is_slow=Random(f"{seed}/slow").random() < 1 / 3,
            ),
        )


def _unhurried(limits: Limits, frames_at_once_max: int, *, is_slow: bool) -> Limits:
    """Nobody is told to slow down, but whoever says more than this at once may be heard in portions.

    Where all is slow nobody is read for a while after each payload, and much waits to be heard when a link breaks, a
    session is taken over, or the server dies.
    """
    limits = replace(generous(limits), fair_queue_frames_max=frames_at_once_max, fair_queue_portion_max=2)
    if is_slow:
        limits = replace(limits, bytes_burst=1, bytes_per_s=4.0 * KIB, fair_queue_pause_s=0.05, flood_policy="warn")
    return limits
