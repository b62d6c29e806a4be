"""What two nodes say to each other about the clients that one relays to the other.

A message has a number within its line, so that a lost one is noticed, and many frames, one after the other. A link is
named by the number that its dialing node gave it: positive in the words of that node, negative in those of the other.
"""

from msgspec import Struct


class LinkOpening(Struct, frozen=True, array_like=True, tag=1):
    """A client is here: take it."""

    link: int
    caller: str
    """The client's address."""
    is_encrypted: bool
    is_compressed: bool
    subprotocols: tuple[str, ...]
    """What the client can speak, the best first."""
    follows: bytes = b""
    """The key of a handover: the client goes on in the middle of its session. Empty if it begins with a hello."""
    age_s: float = 0.0
    """How long the client was connected before this."""


class LinkOpened(Struct, frozen=True, array_like=True, tag=2):
    """It is taken."""

    link: int
    subprotocol: str


class LinkNotOpened(Struct, frozen=True, array_like=True, tag=3):
    """It is not taken."""

    link: int
    why: str
    may_retry: bool


class LinkPart(Struct, frozen=True, array_like=True, tag=4):
    """A payload, or a piece of one."""

    link: int
    body: bytes
    is_last: bool


class LinkCredit(Struct, frozen=True, array_like=True, tag=5):
    """So many bytes were read: as many more may come."""

    link: int
    size: int


class LinkClosing(Struct, frozen=True, array_like=True, tag=6):
    """The close of a link, or the answer to one."""

    link: int
    code: int
    reason: str


class LinkReset(Struct, frozen=True, array_like=True, tag=7):
    """The link is gone, without a close."""

    link: int


class LinkPassing(Struct, frozen=True, array_like=True, tag=8):
    """Take over the client's connection: its socket came with this key. Nothing of the client follows this."""

    link: int
    key: bytes
    is_text: bool
    """Whether the last payloads of the client were text."""
    window_bits: int
    """The window of compressed payloads; 0 if they are not compressed."""


class LinkTaking(Struct, frozen=True, array_like=True, tag=9):
    """The node of the session is ready to take it: nothing for the client follows this, until it has it."""

    link: int
    key: bytes


class LinkPassed(Struct, frozen=True, array_like=True, tag=10):
    """The client has all that was relayed to it: its connection is the other node's."""

    link: int
    key: bytes


class LinkKept(Struct, frozen=True, array_like=True, tag=11):
    """From either side: the client is relayed as before."""

    link: int
    key: bytes


RelayFrame = (
    LinkOpening
    | LinkOpened
    | LinkNotOpened
    | LinkPart
    | LinkCredit
    | LinkClosing
    | LinkReset
    | LinkPassing
    | LinkTaking
    | LinkPassed
    | LinkKept
)


class RelayMessage(Struct, frozen=True, array_like=True):
    """What is sent at once. Fields are only ever added, with defaults."""

    life: str
    """The node that says it."""
    line: int
    number: int
    to: int
    """The line on which the other node is heard; 0 if there is none."""
    heard: int
    """The number of the last message that was heard there."""
    past: int
    """The other node's last line that was given up: it has to begin another."""
    frames: tuple[RelayFrame, ...] = ()
