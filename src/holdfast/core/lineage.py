"""The lineage of a session: which history the numbers of its client belong to.

A starting server continues from what its store has. That may be less than a client has seen: a backup was restored, or
a disk lost confirmed writes. Numbers alone do not show it, because the room continues and reuses them. So each recovery
forks the session's history, and the next welcome names the new lineage:

    lineage presented     the client's numbers are of our history
    the present one       yes
    one that was forked   if they are not beyond the fork
    any other             no: the store went back to before that lineage began

A lineage is saved before its client receives it. The first one of a session has no name. Once the client has sent
something under a lineage, older ones are forgotten: their tokens are no longer valid.
"""

from collections.abc import Iterable

from holdfast.schemas.frames import Resume
from holdfast.schemas.session import Fork

LINEAGE_BYTES = 6
"""Random bytes in a lineage's name: two histories of one session must have different names."""


class Lineage:
    """The present lineage of one session, and those that its client may still resume with."""

    __slots__ = ("_forks_max", "forks", "name")

    def __init__(self, forks_max: int) -> None:
        self._forks_max = forks_max
        self.name = ""
        self.forks: tuple[Fork, ...] = ()

    def restore(self, name: str, forks: Iterable[Fork]) -> None:
        self.name = name
        self.forks = tuple(forks)[-self._forks_max :]

    @property
    def is_forked(self) -> bool:
        """Whether the server restarted since the client last received a lineage."""
        return any(fork.lineage == self.name for fork in self.forks)

    def fork(self, fork: Fork) -> None:
        """The server restarted. Only the first time counts: the client has received nothing since."""
        if not self.is_forked:
            self.forks = (*self.forks, fork)[-self._forks_max :]

    def begin(self, name: str) -> None:
        """The client is about to receive this lineage."""
        self.name = name

    def confirmed(self) -> None:
        """The client has sent something since it received the present lineage."""
        self.forks = ()

    def includes(self, resume: Resume, *, but: int = 0) -> bool:
        """Whether everything the client knows is part of our history; channel `but` is not checked."""
        if (fork := self._fork_of(resume.lineage)) is not None:
            return fork.includes(resume, but=but)
        return resume.lineage == self.name

    def age_s(self, lineage: str) -> float | None:
        """How old the recovered state was when this lineage ended, if that is known."""
        fork = self._fork_of(lineage) or (self.forks[-1] if self.forks else None)
        return fork.age_s if fork is not None else None

    def _fork_of(self, lineage: str) -> Fork | None:
        return next((fork for fork in self.forks if fork.lineage == lineage), None)
