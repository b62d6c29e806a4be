"""Seeded nonsense: values, near misses, payloads gone bad. The same seed gives the same, so a failure is its seed."""

from random import Random
from typing import Any

import msgspec

from tests.core.vectors import cases

NAMES = sorted({case["frame"][0] for case in cases("frames.json")})
KEYS = sorted({"scheme", "credential", "session", "token", "positions", "channel", "generation", "received", "kind"})
NUMBERS = [-(2**63), -(2**31), -1, 0, 1, 127, 128, 2**32, 2**53 - 1, 2**53, 2**63, 2**64 - 1]
FRACTIONS = [0.0, -0.0, 0.5, 1.0, 1e308, float("inf"), float("-inf"), float("nan")]
LETTERS = 'ab\0\x1f\x7fé\u2028\ud7ff\N{GAME DIE}"\\/'


class Noise:
    """An endless source of it."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def text(self) -> str:
        """Short mostly, and sometimes too long for a name."""
        length = self._random.choice([0, 1, 3, 64, 65])
        return "".join(self._random.choices(LETTERS, k=length))

    def scalar(self) -> Any:
        """What every codec can say."""
        random = self._random
        return random.choice(
            [None, True, False, random.choice(NUMBERS), random.randrange(300), random.choice(FRACTIONS), self.text()]
        )

    def value(self, depth: int = 3) -> Any:
        """A scalar, or an array or an object of values."""
        random = self._random
        if depth == 0 or random.random() < 0.5:
            return self.scalar()
        if random.random() < 0.5:
            return [self.value(depth - 1) for _ in range(random.randrange(5))]
        return {
            random.choice([self.text(), random.choice(KEYS)]): self.value(depth - 1) for _ in range(random.randrange(5))
        }

    def oddity(self, depth: int = 3) -> Any:
        """What only MessagePack can say: bytes, extensions, keys that are not text."""
        random = self._random
        if depth == 0 or random.random() < 0.5:
            octets = random.randbytes(random.randrange(9))
            # -1 is MessagePack's own: a timestamp, which `datetime` stands for.
            code = random.randrange(-128, 128)
            return random.choice([self.scalar(), octets, msgspec.msgpack.Ext(0 if code == -1 else code, octets)])
        if random.random() < 0.5:
            return [self.oddity(depth - 1) for _ in range(random.randrange(5))]
        keys = [random.choice([random.randrange(9), b"k", "k", None, True, (1, 2)]) for _ in range(random.randrange(4))]
        return {key: self.oddity(depth - 1) for key in keys}

    def near_miss(self) -> list[Any]:
        """A frame of a known name, with fields that may even fit."""
        random = self._random
        fields = [random.choice([random.randrange(5), self.value(2), {}]) for _ in range(random.randrange(10))]
        return [random.choice(NAMES), *fields]

    def body(self, keys: list[str], value_of: Any) -> Any:
        """An object with some of these keys, or something else."""
        random = self._random
        if random.random() < 0.1:
            return value_of()
        return {key: value_of() for key in random.sample(keys, random.randrange(1, len(keys)))}

    def mutated(self, payloads: list[bytes]) -> bytes:
        """A good payload with bytes overwritten, put in, cut out, repeated or taken from another one."""
        random = self._random
        payload = bytearray(random.choice(payloads))
        for _ in range(random.randint(1, 6)):
            place, length = random.randrange(len(payload) + 1), random.randint(1, 16)
            other = random.choice(payloads)
            end, put = random.choice(
                [
                    (place + 1, random.randbytes(1)),
                    (place, random.randbytes(random.randint(1, 8))),
                    (place + length, b""),
                    (place, bytes(payload[place : place + length]) * random.randint(1, 4)),
                    (len(payload), other[random.randrange(len(other)) :]),
                ]
            )
            payload[place:end] = put
        return bytes(payload)
