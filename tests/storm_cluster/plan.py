"""What is done to the cluster, in which order."""

from dataclasses import dataclass
from random import Random

SHORT = ("kill node", "move", "move and kill", "drain", "stop node 1.5", "kill leader")
"""The form that takes less than a minute."""

# So many of each for every hundred kills of a node; at least one.
_RATES = {
    "kill node": 40,
    "kill in takeover": 10,
    "move and kill": 20,
    # Before and after each step of a move, once.
    "die in a move": 18,
    "slow disk": 5,
    "kill two nodes": 5,
    "kill both": 10,
    "kill leader": 10,
    "end leader": 5,
    "stop leader": 5,
    "stop node 0.3": 5,
    "stop node 1.5": 5,
    "stop node 5": 5,
    "stop node 30": 2,
    "move": 15,
    "drain": 10,
    "rolling restart": 2,
}
_CUTS = {"cut node from NATS": 10, "cut node from clients": 5, "cut leader from NATS": 6}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much of everything."""

    seed: int
    kills: int
    """0: the short form."""
    clients: int = 18
    groups: int = 2
    seats: int = 4
    hurry: float = 0.3
    """What part of its back-off a client waits."""
    can_cut: bool = False
    given: tuple[str, ...] = ()
    """These episodes instead."""

    def episodes(self, random: Random) -> list[str]:
        """One after the other."""
        if self.given or not self.kills:
            return list(self.given or SHORT)
        rates = _RATES | (_CUTS if self.can_cut else {})
        episodes = [name for name, rate in rates.items() for _ in range(max(1, rate * self.kills // 100))]
        random.shuffle(episodes)
        return episodes

    @property
    def count(self) -> int:
        """How many episodes there are."""
        return len(self.episodes(Random(self.seed)))

    @property
    def names(self) -> list[str]:
        """Of the clients; wanderers are those whose names begin with w."""
        wanderers = self.clients // 6
        return [f"c{n}" for n in range(self.clients - wanderers)] + [f"w{n}" for n in range(wanderers)]
