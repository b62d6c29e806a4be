"""The files that keys lie in, and what clients pin."""

import base64
import logging
import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.transports.keys import ServerKey, read_keys, read_public


def test_a_key_is_kept_in_a_file_that_only_its_owner_can_read(tmp_path: Path) -> None:
    key = ServerKey.new()

    key.write(tmp_path / "server.key")

    assert (tmp_path / "server.key").stat().st_mode & 0o777 == 0o600
    assert ServerKey.read(tmp_path / "server.key").public == key.public


def test_a_key_is_never_written_over_another(tmp_path: Path) -> None:
    first = ServerKey.new()
    first.write(tmp_path / "server.key")

    with pytest.raises(FileExistsError):
        ServerKey.new().write(tmp_path / "server.key")

    assert ServerKey.read(tmp_path / "server.key").public == first.public


def test_a_file_that_others_can_read_is_complained_about(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ServerKey.new().write(tmp_path / "server.key")
    (tmp_path / "server.key").chmod(0o644)

    ServerKey.read(tmp_path / "server.key")

    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "chmod 600" in caplog.text


ED25519 = """-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g
-----END PRIVATE KEY-----
"""  # an example of RFC 8410: a key, but not for this


@pytest.mark.parametrize("text", ["", "not a key", ED25519, "x" * 10_000])
def test_a_file_with_something_else_is_refused_with_a_hint(tmp_path: Path, text: str) -> None:
    (tmp_path / "server.key").write_text(text)

    with pytest.raises(ValueError, match="holdfast key new"):
        ServerKey.read(tmp_path / "server.key")


def test_a_key_can_be_made_by_openssl(tmp_path: Path) -> None:
    file = tmp_path / "server.key"
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("this machine has no openssl")

    subprocess.run([openssl, "genpkey", "-algorithm", "x25519", "-out", file], check=True, capture_output=True)

    assert len(read_public(ServerKey.read(file).public)) == 32


def test_the_text_of_a_key_shows_its_public_half_only() -> None:
    key = ServerKey.new()

    assert repr(key) == f"ServerKey(public={key.public!r})"
    assert str(key) == repr(key)


def test_the_public_half_is_43_characters_that_can_be_pasted_anywhere() -> None:
    public = ServerKey.new().public

    assert len(public) == 43
    assert set(public) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
    assert len(read_public(public)) == 32


@pytest.mark.parametrize(
    "text",
    [
        "",
        "short",
        "A" * 42,
        "A" * 44,
        "A" * 42 + " ",
        " " + "A" * 42,
        "A" * 42 + "\n",
        "A" * 42 + "+",
        "Ä" * 43,
        "=" * 43,
    ],
)
def test_what_is_no_public_key_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(ValueError, match="holdfast key show"):
        read_public(text)


@pytest.mark.parametrize("point", [bytes(32), b"\x01" + bytes(31), b"\xec" + b"\xff" * 30 + b"\x7f"])
def test_a_point_that_keeps_no_secret_is_refused_as_a_key(point: bytes) -> None:
    text = base64.urlsafe_b64encode(point).rstrip(b"=").decode()

    with pytest.raises(ValueError, match="no server's"):
        read_public(text)


def test_a_server_may_have_two_keys_and_no_more(tmp_path: Path) -> None:
    new, old = ServerKey.new(), ServerKey.new()
    old.write(tmp_path / "old.key")

    assert [key.public for key in read_keys([new, tmp_path / "old.key"])] == [new.public, old.public]
    assert [key.public for key in read_keys(str(tmp_path / "old.key"))] == [old.public]
    with pytest.raises(ValueError, match="one key, or 2"):
        read_keys([new, old, ServerKey.new()])
    with pytest.raises(ValueError, match="one key, or 2"):
        read_keys([])
