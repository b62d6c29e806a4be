"""A player as a program of its own, that keeps a diary: whoever has its files can go on after a SIGKILL.

    python -m tests.e2e.diarist ws://127.0.0.1:7777 folder 200 [blocking]

The session is saved by the library. What was received is written to the diary together with its number: a message that
was handled and not acknowledged before a kill comes again, and is known by that. What was sent is not written down at
all: `room.sent` says which message is the next.
"""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Self

import msgspec

import holdfast
from holdfast import ClientRoom, Message
from holdfast.sync import ClientRoom as BlockingRoom
from holdfast.sync import connect as connect_blocking
from tests.e2e.counting import PULSES_HZ, Ask, Begin, Down, Report, Up

MESSAGES: list[type[Message]] = [Down, Report]


class Diary(msgspec.Struct):
    numbers: list[int] = msgspec.field(default_factory=list)
    strange: list[str] = msgspec.field(default_factory=list)
    handled: int = 0
    repeats: int = 0
    report: Report | None = None

    @classmethod
    def read(cls, file: Path) -> Self:
        return msgspec.msgpack.decode(file.read_bytes(), type=cls) if file.exists() else cls()

    def write(self, file: Path) -> None:
        draft = file.with_suffix(".draft")
        draft.write_bytes(msgspec.msgpack.encode(self))
        draft.replace(file)


class Diarist:
    def __init__(self, url: str, folder: Path, messages: int) -> None:
        self._url = url
        self._saved = folder / "ada.session"
        self._file = folder / "diary"
        self._last = messages
        self._diary = Diary.read(self._file)

    def _message(self, number: int) -> Message | None:
        """What this program says, by the number that it has on its seat."""
        if number == 1:
            return Begin(self._last, 1)
        if number <= self._last + 1:
            return Up(number - 1)
        return Ask() if number == self._last + 2 else None

    @property
    def _is_done(self) -> bool:
        return self._diary.report is not None and self._diary.numbers[-1] >= self._last

    def _handle(self, number: int, message: Message) -> None:
        if number <= self._diary.handled:
            self._diary.repeats += 1
            return
        self._diary.handled = number
        match message:
            case Down(number):
                self._diary.numbers.append(number)
            case Report() as report:
                self._diary.report = report
            case other:
                self._diary.strange.append(repr(other))
        self._diary.write(self._file)

    # With an event loop

    async def live(self) -> None:
        async with holdfast.connect(self._url, messages=MESSAGES, saved=self._saved) as session:
            room = session.room or await session.join_or_create("counting")
            playing()
            counting = asyncio.create_task(self._count(room))
            while not self._is_done:
                message = await room.receive()
                self._handle(room.received, message)
            await counting

    async def _count(self, room: ClientRoom) -> None:
        while (message := self._message(room.sent + 1)) is not None:
            await asyncio.sleep(1 / PULSES_HZ)
            await room.send(message)

    # Without one

    def live_blocking(self) -> None:
        with connect_blocking(self._url, messages=MESSAGES, saved=self._saved) as session:
            room = session.room or session.join_or_create("counting")
            playing()
            counting = threading.Thread(target=self._count_blocking, args=(room,), daemon=True)
            counting.start()
            while not self._is_done:
                message = room.receive()
                self._handle(room.received, message)
            counting.join()

    def _count_blocking(self, room: BlockingRoom) -> None:
        pause = threading.Event()
        while (message := self._message(room.sent + 1)) is not None:
            pause.wait(1 / PULSES_HZ)
            room.send(message)


def playing() -> None:
    sys.stdout.write("playing\n")
    sys.stdout.flush()


if __name__ == "__main__":
    diarist = Diarist(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
    if sys.argv[4:] == ["blocking"]:
        diarist.live_blocking()
    else:
        asyncio.run(diarist.live())
