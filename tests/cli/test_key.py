"""`holdfast key`, and a server that is told to use one."""

import re
import signal
from pathlib import Path
from textwrap import dedent

import pytest

import holdfast
from holdfast.transports.keys import ServerKey
from holdfast.transports.port import DialError
from tests.e2e.serving import ANY_PORTS, end_of, holdfast_process, read_until, result_of

GAME = """
    from holdfast import PlayerData, Room

    class Arena(Room[PlayerData]):
        pass
"""


@pytest.fixture
def game(tmp_path: Path) -> Path:
    file = tmp_path / "game.py"
    file.write_text(dedent(GAME))
    return file


async def test_a_new_key_is_kept_in_a_file_and_its_public_half_printed(tmp_path: Path) -> None:
    made = await result_of("key", "new", "server.key", cwd=tmp_path)
    shown = await result_of("key", "show", "server.key", cwd=tmp_path)

    assert made.exit_code == shown.exit_code == 0
    assert made.stdout == shown.stdout == f"{ServerKey.read(tmp_path / 'server.key').public}\n"
    assert (tmp_path / "server.key").stat().st_mode & 0o777 == 0o600
    assert "PRIVATE" not in made.stdout + made.stderr + shown.stdout + shown.stderr


async def test_a_key_that_exists_is_not_written_over(tmp_path: Path) -> None:
    await result_of("key", "new", "server.key", cwd=tmp_path)
    before = (tmp_path / "server.key").read_bytes()

    again = await result_of("key", "new", "server.key", cwd=tmp_path)

    assert again.exit_code == 1
    assert "exists already" in again.stderr
    assert (tmp_path / "server.key").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("key", "show", "missing.key"), "missing.key cannot be read: No such file or directory."),
        (("key", "show", "game.py"), "holds no key of a server: make one with `holdfast key new FILE`."),
        (("key", "new", "no/such/folder.key"), "cannot be written: No such file or directory."),
        (("serve", "game.py", *ANY_PORTS, "--tcp-key", "missing.key"), "missing.key cannot be read"),
        (("serve", "game.py", *ANY_PORTS, "--tcp-key", "game.py"), "holds no key of a server"),
        (("serve", "game.py", *ANY_PORTS, "--tcp-plain"), "tcp_plain is for a server with a tcp_key"),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_sentence(
    game: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    result = await result_of(*arguments, cwd=game.parent)

    assert result.exit_code == 1
    assert complaint in result.stderr
    assert "Traceback" not in result.stderr


async def test_a_server_encrypts_with_its_key_and_says_what_to_pin(game: Path) -> None:
    key = ServerKey.new()
    key.write(game.parent / "server.key")
    arguments = ("serve", "game.py", *ANY_PORTS, "--tcp-key", "server.key", "--compression")
    async with holdfast_process(*arguments, cwd=game.parent) as process:
        said = await read_until(process, "Ctrl-C ends it")
        (address,) = re.findall(r"tcp://\S+", said)

        async with holdfast.connect(address, server_key=key.public, compression=True) as session:
            assert session.connected
        with pytest.raises(DialError, match="encrypted here"):
            await holdfast.connect(address)

        ended = await end_of(process, by=signal.SIGINT)
    assert f"encrypted; its clients pin {key.public}" in said
    assert ended.exit_code == 0
