"""Resume tokens, and the lineage of a session: who may resume, and from which history. Also the ids of everything.

Tokens have 256 bits, are used once, rotated at every resume, and kept only as hashes. A client that never received the
answer to its resume still holds the token it came with, so two are valid at a time:

    presented          then
    current            a fresh next is minted; an older next that was never confirmed is retired
    next               it becomes current, the old current is retired, a fresh next is minted
    one of the retired somebody else has it: `Verdict.REUSED`, the session must be revoked
    anything else      `Verdict.UNKNOWN`

`confirm` promotes next as soon as the client shows that it received it, so that a used token is dead at once.
"""

import hashlib
import hmac
from binascii import b2a_base64
from collections.abc import Collection, Iterable
from enum import Enum

from holdfast.schemas.frames import Resume
from holdfast.schemas.session import Fork

_URL_SAFE = bytes.maketrans(b"+/", b"-_")

TOKEN_BYTES = 32
LINEAGE_BYTES = 6
"""Random bytes in a lineage's name: two histories of one session must have different names."""


class Verdict(Enum):
    """What presenting a token proved."""

    GOOD = "good"
    REUSED = "reused"
    UNKNOWN = "unknown"


def printable(secret: bytes) -> str:
    """A secret as text: URL-safe letters, no padding."""
    return b2a_base64(secret, newline=False).translate(_URL_SAFE).rstrip(b"=").decode()


def new_id(entropy: bytes) -> str:
    """A URL-safe id. It begins with a letter: commands would take a leading "-" for an option."""
    return printable(bytes((entropy[0] & 0x7F, *entropy[1:])))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class ResumeTokens:
    """The tokens of one session. `entropy` is 32 fresh random bytes each time."""

    __slots__ = ("_current", "_next", "_retired", "_retired_max")

    def __init__(self, retired_max: int) -> None:
        self._current = b""
        self._next: bytes | None = None
        self._retired_max = retired_max
        self._retired: tuple[bytes, ...] = ()

    def issue(self, entropy: bytes) -> str:
        """The session's first token."""
        token = printable(entropy)
        self._current = _hash(token)
        return token

    def present(self, token: str) -> Verdict:
        """Judge a token; a valid one must be followed by `rotate`."""
        presented = _hash(token)
        if self._next is not None and hmac.compare_digest(presented, self._next):
            self.confirm()
            return Verdict.GOOD
        if hmac.compare_digest(presented, self._current):
            return Verdict.GOOD
        if any(hmac.compare_digest(presented, retired) for retired in self._retired):
            return Verdict.REUSED
        return Verdict.UNKNOWN

    def is_known(self, token: str) -> bool:
        """Whether the token is one of the session's, valid or retired."""
        presented = _hash(token)
        known = (self._current, self._next or b"", *self._retired)
        return any(hmac.compare_digest(presented, each) for each in known)

    def rotate(self, entropy: bytes) -> str:
        """Mint the token for the next resume; the current one stays valid until the client confirms."""
        if self._next is not None:
            self._retire(self._next)
        token = printable(entropy)
        self._next = _hash(token)
        return token

    def confirm(self) -> bool:
        """The client has the next token: the current one is used up; False if that was known."""
        if self._next is None:
            return False
        self._retire(self._current)
        self._current, self._next = self._next, None
        return True

    def hashes(self) -> tuple[bytes, bytes, list[bytes]]:
        """What is saved: the current hash, the next one (empty: none), the retired ones."""
        return self._current, self._next or b"", list(self._retired)

    def restore(self, current: bytes, next_: bytes, retired: list[bytes]) -> None:
        self._current, self._next = current, next_ or None
        self._retired = ()
        for each in retired:
            self._retire(each)

    def _retire(self, used: bytes) -> None:
        retired = (*self._retired, used)
        self._retired = retired[max(0, len(retired) - self._retired_max) :]

    def __repr__(self) -> str:
        return "<ResumeTokens ***>"


class Lineage:
    """The present lineage of one session, and those that its client may still resume with.

    A starting server continues from what its store has. That may be less than a client has seen: a backup was restored,
    or a disk lost confirmed writes. Numbers alone do not show it, because the room continues and reuses them. So each
    recovery forks the session's history, and the next welcome names the new lineage:

        lineage presented     the client's numbers are of our history
        the present one       yes
        one that was forked   if they are not beyond the fork
        any other             no: the store went back to before that lineage began

    A lineage is saved before its client receives it. The first one of a session has no name; that of a later one begins
    with the epoch of its welcome. Once the client has sent something under a lineage, older ones are forgotten: their
    tokens are no longer valid.
    """

    __slots__ = ("_forks_max", "forks", "name")

    def __init__(self, forks_max: int) -> None:
        self._forks_max = forks_max
        self.name = ""
        self.forks: tuple[Fork, ...] = ()

    def restore(self, name: str, forks: Iterable[Fork]) -> None:
        self.name = name
        self.forks = self._newest(tuple(forks))

    @property
    def is_forked(self) -> bool:
        """Whether the server restarted since the client last received a lineage."""
        return any(fork.lineage == self.name for fork in self.forks)

    def fork(self, fork: Fork) -> None:
        """The server restarted. Only the first time counts: the client has received nothing since."""
        if not self.is_forked:
            self.forks = self._newest((*self.forks, fork))

    def _newest(self, forks: tuple[Fork, ...]) -> tuple[Fork, ...]:
        return forks[max(0, len(forks) - self._forks_max) :]

    def begin(self, epoch: int, entropy: bytes, *, presented: str) -> None:
        """The welcome of this epoch names a new lineage, for a client that has presented another one.

        It will return with one of these two: the tokens that came with any others are used up.
        """
        self.name = f"{epoch:x}.{printable(entropy)}"
        if (fork := self._fork_of(presented)) is not None:
            self.forks = (fork,)

    def confirmed(self) -> None:
        """The client has sent something since it received the present lineage."""
        self.forks = ()

    def leave_out(self, channels: Collection[int], age_s: float | None) -> None:
        """The room of these channels returned from a checkpoint of this age: a client may know more of them."""
        self.forks = tuple(fork.without(channels, age_s) for fork in self.forks)

    def left_out(self, channel: int) -> Fork | None:
        """The fork at which the room of a channel, which is still there, returned from a checkpoint."""
        return next((fork for fork in self.forks if fork.leaves_out(channel)), None)

    def includes(self, resume: Resume) -> bool:
        """Whether everything the client knows is part of our history."""
        if (fork := self._fork_of(resume.lineage)) is not None:
            return fork.includes(resume)
        return resume.lineage == self.name

    def is_exceeded_by(self, resume: Resume, epoch: int) -> bool:
        """Whether a client without a valid token knows something from beyond our history; `epoch` is the session's.

        A lineage that is not known is no proof: it may have been forgotten long ago.
        """
        if not self.forks or (resume.lineage == self.name and not self.is_forked):
            return False
        if (fork := self._fork_of(resume.lineage)) is not None:
            return not fork.includes(resume)
        return _epoch_of(resume.lineage) > epoch or not self.forks[-1].includes(resume)

    def age_s(self, lineage: str) -> float | None:
        """How old the recovered state was when this lineage ended, if that is known."""
        fork = self._fork_of(lineage) or (self.forks[-1] if self.forks else None)
        return fork.age_s if fork is not None else None

    def _fork_of(self, lineage: str) -> Fork | None:
        return next((fork for fork in self.forks if fork.lineage == lineage), None)


def _epoch_of(lineage: str) -> int:
    """The epoch in which a lineage began; 0 if its name does not say so."""
    epoch, dot, _ = lineage.partition(".")
    try:
        return int(epoch, 16) if dot else 0
    except ValueError:
        return 0
