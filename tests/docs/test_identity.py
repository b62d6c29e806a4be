"""The numbers in docs/guide/identity.md are the defaults, and its table names every authenticator."""

import re
from pathlib import Path

from holdfast import Limits
from holdfast.identity import Argon2Settings, Guest, Hook, Password, Tickets
from holdfast.identity.accounts import NAME_CHARS_MAX, PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN
from holdfast.schemas.frames import CREDENTIAL_CHARS_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "guide" / "identity.md").read_text("utf-8")
LIMITS = Limits()


def test_numbers_in_the_text_are_the_defaults() -> None:
    text = " ".join(PAGE.split())
    words = {2: "Two", 5: "five", 50: "fifty"}
    settings = Argon2Settings()
    for claim in (
        f"at most {LIMITS.records_in_memory_max:,} records are kept (`Limits.records_in_memory_max`)",
        f"1 to {NAME_CHARS_MAX} characters, no colon",
        f"{PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters and are kept as argon2id hashes",
        f"{settings.memory_kib // 1024} MiB and {words[settings.passes].lower()} passes",
        f"After {words[LIMITS.wrong_passwords_max]} wrong passwords (`Limits.wrong_passwords_max`)",
        f"up to {words[int(LIMITS.lockout_max_s // 60)].lower()} minutes (`lockout_max_s`)",
        f"{words[LIMITS.password_checks_max]} passwords are checked at a time (`password_checks_max`)",
        f"and {LIMITS.password_checks_waiting_max} may wait, {LIMITS.password_checks_per_address_max} of them from one",
        f"After {words[LIMITS.wrong_passwords_elsewhere_max]} from all addresses together",
        f"It may have {CREDENTIAL_CHARS_MAX // 1024} KiB; a client's hello has {LIMITS.hello_bytes_max // 1024} KiB",
        f"but for that at most every {LIMITS.issuer_keys_pause_s:g} seconds",
        f"at most {LIMITS.ticket_max_s:g} (`Limits.ticket_max_s`)",
        f"It has `Limits.auth_s` ({LIMITS.auth_s:g} seconds) to decide",
    ):
        assert claim in text, claim
    assert LIMITS.issuer_keys_s == 3600, "once an hour"


def test_every_authenticator_is_in_the_table() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)\(", PAGE, flags=re.MULTILINE)

    known = [(each.scheme, type(each).__name__) for each in (Guest(), Password(), Tickets(), Hook(lambda *_: "x"))]
    assert rows == [known[0], known[1], ("jwt", "Jwt"), *known[2:]]
