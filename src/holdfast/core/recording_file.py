"""A recording as a file: one MessagePack value with the turns in deflated blocks. It holds everything, secrets too."""

import msgspec

from holdfast.core.codec import DECODE_ERRORS
from holdfast.core.recording import NotARecording, RecordingReader
from holdfast.schemas.recording import (
    RECORDING_FORMAT,
    RECORDING_VERSION,
    RecordingFile,
    RecordingHead,
    StoredBlock,
)

# An array of five, which begins with this text: what every version of the file begins with.
_START = bytes([0x95, 0xA0 + len(RECORDING_FORMAT)]) + RECORDING_FORMAT.encode()

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RecordingFile).decode
_decode_version = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


def to_bytes(head: RecordingHead, blocks: list[StoredBlock], stopped: str = "") -> bytes:
    """The file as it is written."""
    return _encode(RecordingFile(RECORDING_FORMAT, RECORDING_VERSION, head, blocks, stopped))


def from_bytes(data: bytes) -> RecordingReader:
    """A file that was read, or `NotARecording` with what is wrong with it."""
    if data[1 : len(_START)] != _START[1:]:
        raise NotARecording("it is not a recording of a room")
    try:
        version = msgspec.msgpack.decode(_decode_version(data)[1], type=int)
        if version > RECORDING_VERSION:
            raise NotARecording(
                f"it is of version {version}, and this Holdfast reads up to {RECORDING_VERSION}: use a newer one"
            )
        read = _decode(data)
    except NotARecording:
        raise
    except (*DECODE_ERRORS, LookupError) as error:
        raise NotARecording(f"it is damaged: {error}") from None
    expected = read.blocks[0].first if read.blocks else 1
    for block in read.blocks:
        if block.first != expected or block.count < 1:
            raise NotARecording(f"it is damaged: turns before {block.first} are missing")
        expected = block.first + block.count
    return RecordingReader(read.head, read.blocks, read.stopped)
