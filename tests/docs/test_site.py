"""The look at a built site finds what is missing or leads nowhere."""

from pathlib import Path

import pytest

import holdfast
from tests.docs.site import EXPORTS, broken_links, exports, missing_in_python

PAGE = '<a href="other.html#there">x</a><a href="#here">x</a><h1 id="here">x</h1><img src="a.png"><a href="https://x">x</a>'


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1><a href="index.html">x</a>')
    (tmp_path / "a.png").write_bytes(b"")
    return tmp_path


def test_a_site_whose_links_lead_somewhere_is_fine(site: Path) -> None:
    assert broken_links(site) == []


@pytest.mark.parametrize(
    ("file", "text", "broken"),
    [
        ("other.html", "<p>x</p>", "index.html: other.html#there"),
        ("index.html", PAGE.replace('id="here"', 'id="gone"'), "index.html: #here"),
        ("index.html", PAGE.replace("a.png", "b.png"), "index.html: b.png"),
        ("index.html", PAGE.replace("other.html", "more.html"), "index.html: more.html#there"),
    ],
)
def test_a_link_an_anchor_or_an_image_that_is_gone_is_found(site: Path, file: str, text: str, broken: str) -> None:
    (site / file).write_text(text)

    assert broken_links(site) == [broken]


def test_a_public_name_or_member_that_the_reference_lacks_is_found() -> None:
    everything = set(missing_in_python(set()))
    assert {"holdfast.Room", "holdfast.Room.on_join", "holdfast.Limits.ping_s", "holdfast.sync.connect"} <= everything

    assert missing_in_python(everything - {"holdfast.Player.send", "holdfast.Invalid"}) == [
        "holdfast.Invalid",
        "holdfast.Player.send",
    ]


def test_the_engines_half_of_a_session_is_not_asked_for() -> None:
    assert not [name for name in missing_in_python(set()) if name.startswith("holdfast.Session.")]
    assert hasattr(holdfast.Session, "tokens")


def test_the_exports_of_typescript_are_known(tmp_path: Path) -> None:
    (tmp_path / "index.ts").write_text('export { a, type B } from "./x.js";\nexport type * from "./types.js";\n')
    (tmp_path / "types.ts").write_text("export interface C {}\nexport type D = 1;\nexport const e = 1;\nconst f = 2;\n")

    assert exports(tmp_path / "index.ts") == {"a", "B", "C", "D", "e"}
    assert {"connect", "ClientRoom", "RoomPage"} <= exports(EXPORTS)
