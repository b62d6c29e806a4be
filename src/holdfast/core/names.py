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
    ]
)
# They say whether the sign before is shown in colour.
_SELECTORS = "\ufe0e\ufe0f"
# More marks on one letter cover the lines around it; no language uses so many.
_MARKS_MAX = 4


def checked_name(text: str, chars_max: int) -> str:
    """A display name as it is kept: in Unicode's form NFC, with single spaces inside and none around.

    `NameNotAllowed` if it is too long, or contains what cannot be seen or disturbs what is around it. Empty: no name.
    """
    # Before the rest of the work, which takes the longer the longer it is.
    if len(text) > 4 * chars_max:
        raise _too_long(chars_max)
    for letter in text:
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
# What is left after folding the case: I, l and 1; O and 0.
_ALIKE_IN_ASCII = str.maketrans({"i": "l", "1": "l", "|": "l", "0": "o"})


def skeleton(name: str) -> str:
    """Equal for names that look alike: in another case, width or style, or with letters of another alphabet."""
    if not name.isascii():
        name = normalize("NFKC", name).translate(_LOOK_ALIKES)
        name = "".join(letter for letter in name if letter not in _SELECTORS)
    # Twice: folding may take a composed letter apart, and what is left may be alike again.
    name = normalize("NFC", name.casefold().translate(_LOOK_ALIKES))
    return name.translate(_ALIKE_IN_ASCII).replace("rn", "m").replace("vv", "w")


_SMALL = 10


class NamesInRoom:
    """The names of a room's players, each with whose it is: no two players look alike."""

    __slots__ = ("_numbers", "_owners")

    def __init__(self) -> None:
        self._owners: dict[str, tuple[Hashable, int]] = {}
        """By the skeleton: whose it is, and on how many seats."""
        self._numbers: dict[str, int] = {}
        """By the skeleton of a name that many players have: the last number that told one of them apart."""

    def take(self, owner: Hashable, name: str) -> str:
        """The name as the room sees it: as it is, or with a number behind it if another player's looks like it."""
        if self._is_free(owner, name):
            self.keep(owner, name)
            return name
        base = skeleton(name)
        # Small numbers first, as players come and go. A crowd of the same name goes on after its last number.
        numbers = chain(range(2, _SMALL), count(self._numbers.get(base, _SMALL - 1) + 1))
        number = next(each for each in numbers if self._is_free(owner, f"{name} ({each})"))
        shown = f"{name} ({number})"
        if number >= _SMALL:
            if len(self._numbers) >= len(self._owners):
                # Those of names that nobody has any more. Without them the search only takes longer.
                self._numbers.clear()
            self._numbers[base] = number
        self.keep(owner, shown)
        return shown

    def _is_free(self, owner: Hashable, shown: str) -> bool:
        known = self._owners.get(skeleton(shown))
        return known is None or known[0] == owner

    def keep(self, owner: Hashable, shown: str) -> None:
        """A player has this name already."""
        key = skeleton(shown)
        known = self._owners.get(key)
        if known is None or known[0] == owner:
            self._owners[key] = (owner, known[1] + 1 if known is not None else 1)

    def give_back(self, owner: Hashable, shown: str) -> None:
        """The player is not called so any more."""
        key = skeleton(shown)
        known = self._owners.get(key)
        if known is None or known[0] != owner:
            return
        if known[1] > 1:
            self._owners[key] = (owner, known[1] - 1)
        else:
            del self._owners[key]
