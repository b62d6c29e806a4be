"""Messages that ask for an answer: what is in one, and what a handler's result becomes."""

from typing import Any

from msgspec import Raw

from holdfast.core.codec import DECODE_ERRORS, Codec
from holdfast.core.codecs import CODECS
from holdfast.core.errors import Invalid
from holdfast.core.messages import ASK, Message, MessageAnswered
from holdfast.schemas.frames import Data, Name

NO_ASK = Invalid(f"the body of {ASK!r} is a list of a message's type and its body")

# The body of an ask: the message's own type and body.
_ASKS = {codec: codec.body_decoder(tuple[Name, Raw]) for codec in CODECS.values()}


def asked_message(frame: Data, codec: Codec | None) -> Data | None:
    """The message in an ask, as if it had been sent by itself; None if there is none."""
    if codec is None:
        return None
    try:
        name, body = _ASKS[codec].decode(frame.body)
    except DECODE_ERRORS:
        return None
    return Data(frame.channel, frame.seq, frame.ack, name, body)


def answer_to(seq: int, name: str, result: Any) -> MessageAnswered:
    """What a handler returned, as the answer to the message of this number and type."""
    if result is None:
        return MessageAnswered(seq, "")
    if not isinstance(result, Message):
        raise no_answer(name, result)
    return MessageAnswered(seq, result.wire_name, result)


def no_answer(name: str, result: Any) -> TypeError:
    """A handler returned something else than a message."""
    return TypeError(f"the handler of {name!r} returned {result!r}: an answer is a Message, or None")


def unanswerable(name: str, failure: Exception) -> Exception:
    """A failure of the game, whatever it was: the sender of the message has done nothing wrong."""
    error = RuntimeError(f"the answer to {name!r} cannot be sent")
    error.__cause__ = failure
    return error
