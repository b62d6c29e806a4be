"""The pure manager as its tests need it: a hero for each player's data, and a game that has started."""

from dataclasses import dataclass
from typing import Any

from holdfast.core.sessions import Sessions


@dataclass(eq=False)
class Hero:
    hp: int = 100
    name: str = ""

    def reset(self) -> None:
        self.hp = 100


def in_the_game(**options: Any) -> Sessions[Hero]:
    sessions = Sessions[Hero](**options)
    sessions.start()
    return sessions
