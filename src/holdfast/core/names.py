"""Display names: what a player may be called, and how two who look alike are told apart in a room.

A name is not an identity: anybody may choose any. So it must not do harm where it is shown (control characters, text
that runs backwards, names that cannot be seen), and in a room no two players look the same.
"""

from collections.abc import Hashable
from itertools import chain, count
from unicodedata import category, normalize

from holdfast.core.errors import NameNotAllowed

# Control, format (also what turns the direction of text, and joins without a width), halves of a character, private
# use, line and paragraph separators.
_REFUSED = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
# Letters, symbols and marks of other categories that show nothing: fillers, blanks and selectors (Unicode's
# Default_Ignorable_Code_Point, and the blank braille pattern).
_INVISIBLE = frozenset(
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x2800, 0x3164, 0xFFA0),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE0E),
        *range(0xFFF0, 0xFFF9),
        *range(0xE0000, 0xE1000),
        # Code points that will never be letters.
        *range(0xFDD0, 0xFDF0),
        *(plane | last for plane in range(0, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF)),
    ]
)
# They say whether the sign before is shown in colour.
_SELECTORS = "\ufe0e\ufe0f"
# Makes one sign of two emoji: an astronaut of a woman and a rocket. Elsewhere it cannot be seen.
_JOINER = "\u200d"
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
# Blocks of emoji and of the signs that are joined with them (♀, ❤, ➡, ⬛, ↔).
_EMOJI = (range(0x2190, 0x2200), range(0x2600, 0x27C0), range(0x2B00, 0x2C00), range(0x1F000, 0x1FB00))
# More marks on one letter cover the lines around it; no language uses so many.
_MARKS_MAX = 4


def checked_name(text: str, chars_max: int) -> str:
    """A display name as it is kept: in Unicode's form NFC, with single spaces inside and none around.

    `NameNotAllowed` if it is too long, or contains what cannot be seen or disturbs what is around it. Empty: no name.
    """
    # Before the rest of the work, which takes the longer the longer it is.
    if len(text) > 4 * chars_max:
        raise _too_long(chars_max)
    for position, letter in enumerate(text):
        if letter == _JOINER and _joins_emoji(text[:position], text[position + 1 :]):
            continue
        if category(letter) in _REFUSED or ord(letter) in _INVISIBLE:
            raise NameNotAllowed(
                f"a name must not contain control or invisible characters (U+{ord(letter):04X}): choose another name"
            )
    name = " ".join(normalize("NFC", text).split())
    if len(name) > chars_max:
        raise _too_long(chars_max)
    marks = 0
    for position, letter in enumerate(name):
        is_mark = category(letter) in {"Mn", "Me"}
        marks = marks + 1 if is_mark else 0
        if marks > _MARKS_MAX or (is_mark and (position == 0 or name[position - 1] == " ")):
            raise NameNotAllowed("a name must not contain stacked or lone accents: choose another name")
    return name


def _joins_emoji(before: str, after: str) -> bool:
    # The first of the two may have a colour or a tone of skin.
    return _is_emoji(before.rstrip(_SELECTORS + _SKIN_TONES)[-1:]) and _is_emoji(after[:1])


def _is_emoji(sign: str) -> bool:
    return bool(sign) and sign not in _SKIN_TONES and any(ord(sign) in block for block in _EMOJI)


def _too_long(chars_max: int) -> NameNotAllowed:
    return NameNotAllowed(f"a name has at most {chars_max} characters: choose a shorter one")


# Letters that many fonts draw like a Latin one: those of Greek and Cyrillic, with which names are forged, and a few of
# Latin's own. Capitals apart from small letters: "Η" (eta) looks like "H", and "η" like "n". Unicode's whole table,
# confusables.txt, has 6,000 rows for all scripts. NFKC has replaced wide, bold and circled letters before.
_LOOK_ALIKES = str.maketrans(
    "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺ"
    "αβγεηικνορτυχωϲϳ"
    "АВЕЅІЈКМНОРСТУХҮԚԜӀ"
    "авгеѕіјкмнопрстухүԁһԛԝѵӏ"
    "ıȷɑɡʟʀʏ",
    "ABEZHIKMNOPTYXCM"
    "abyenikvoptuxwcj"
    "ABESIJKMHOPCTYXYQWI"
    "abresijkmhonpctyxydhqwvl"
    "ijaglry",
)  # fmt: skip
# Between or behind signs, they may make no difference to be seen.
_UNSEEN = _SELECTORS + _JOINER


def skeleton(name: str) -> str:
    """Equal for names that look alike: in another case, width or style, or with letters of another alphabet."""
    name = name.lower() if name.isascii() else _in_latin(name)
    # What is left after folding the case: I, l and 1; O and 0. (`translate` takes four times as long.)
    name = name.replace("i", "l").replace("1", "l").replace("|", "l").replace("0", "o")
    return name.replace("rn", "m").replace("vv", "w")


def _in_latin(name: str) -> str:
    name = normalize("NFKC", name).translate(_LOOK_ALIKES)
    name = "".join(letter for letter in name if letter not in _UNSEEN)
    # Twice: folding may take a composed letter apart, and what is left may be alike again.
    name = normalize("NFC", name.casefold().translate(_LOOK_ALIKES))
    # A second dot on a letter that has one.
    for dotted in ("i\u0307", "j\u0307"):
        name = name.replace(dotted, dotted[0])
    return name


_SMALL = 10


class NamesInRoom:
    """The names of a room's players, each with whose it is: no two players look alike."""

    __slots__ = ("_again", "_numbers", "_owners")

    def __init__(self) -> None:
        self._owners: dict[str, Hashable] = {}
        """By the skeleton: whose it is."""
        self._again: dict[str, int] = {}
        """By the skeleton: on how many seats beside the first. Few rooms let a player have several."""
        self._numbers: dict[str, int] = {}
        """By the skeleton of a name that many players have: the last number that told one of them apart."""

    def take(self, owner: Hashable, name: str) -> str:
        """The name as the room sees it: as it is, or with a number behind it if another player's looks like it."""
        base = skeleton(name)
        if self._keep(owner, base):
            return name
        # Small numbers first, as players come and go. A crowd of the same name goes on after its last number.
        numbers = chain(range(2, _SMALL), count(self._numbers.get(base, _SMALL - 1) + 1))
        number = next(each for each in numbers if self._keep(owner, skeleton(f"{name} ({each})")))
        if number >= _SMALL:
            if len(self._numbers) >= len(self._owners):
                # Those of names that nobody has any more. Without them the search only takes longer.
                self._numbers.clear()
            self._numbers[base] = number
        return f"{name} ({number})"

    def keep(self, owner: Hashable, shown: str) -> None:
        """A player has this name already."""
        self._keep(owner, skeleton(shown))

    def _keep(self, owner: Hashable, key: str) -> bool:
        """False if it is another player's."""
        known = self._owners.get(key)
        if known is None:
            self._owners[key] = owner
        elif known == owner:
            self._again[key] = self._again.get(key, 0) + 1
        return known is None or known == owner

    def give_back(self, owner: Hashable, shown: str) -> None:
        """The player is not called so any more."""
        key = skeleton(shown)
        if self._owners.get(key) != owner:
            return
        again = self._again.pop(key, 0)
        if again == 0:
            del self._owners[key]
        elif again > 1:
            self._again[key] = again - 1
