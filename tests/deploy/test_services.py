"""The unit for systemd and the Dockerfile start a server that exists, with options that it has."""

import json
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest

from holdfast.cli.serve import serve
from holdfast.core.limits import Limits

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "systemd" / "holdfast@.service"
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text("utf-8")
DEPLOYING = (ROOT / "docs" / "guide" / "deploying.md").read_text("utf-8")
TLS = ROOT / "deploy" / "systemd" / "tls.conf"
# What `docker stop` waits for, unless told otherwise.
DOCKER_STOP_S = 10
OPTIONS = {option for parameter in serve.params for option in parameter.opts}


def service(file: Path = UNIT) -> dict[str, str]:
    unit = ConfigParser(interpolation=None, strict=False)
    # As written: systemd cares about capitals.
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # so its documentation says
    unit.read_string(file.read_text("utf-8"))
    return dict(unit["Service"])


def options_in(command: str) -> set[str]:
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", command))


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return [line.removeprefix(name).strip() for line in joined.splitlines() if line.startswith(f"{name} ")]


def entry_point() -> list[str]:
    (entry,) = instructions("ENTRYPOINT")
    command: list[str] = json.loads(entry)
    return command


def test_the_unit_serves_with_options_that_there_are() -> None:
    asked = options_in(service()["ExecStart"])

    assert asked
    assert asked <= OPTIONS


def test_the_unit_gives_a_drain_the_time_that_it_takes() -> None:
    found = re.search(r"--drain (\d+)", service()["ExecStart"])
    assert found is not None

    # Then the rooms are closed, the store is written for the last time, and the links end.
    needed_s = int(found[1]) + Limits().close_s * 2 + Limits().commit_timeout_s

    assert service()["KillSignal"] == "SIGTERM"
    assert int(service()["TimeoutStopSec"]) > needed_s


def test_every_instance_keeps_its_store_in_a_directory_of_its_own_that_nobody_else_reads() -> None:
    unit = service()
    store = re.search(r"--store sqlite:%S/(\S+)/\S+", unit["ExecStart"])

    assert store is not None
    assert unit["StateDirectory"] == store[1]
    assert "%i" in store[1]
    assert unit["StateDirectoryMode"] == "0700"
    assert unit["UMask"] == "0077"


def test_a_user_that_cannot_read_the_key_is_handed_it() -> None:
    copied = re.findall(r"^LoadCredential=(\S+):/\S+$", TLS.read_text("utf-8"), re.MULTILINE)
    options = service(TLS)["Environment"]

    assert service()["DynamicUser"] == "yes"
    assert "$HOLDFAST_OPTIONS" in service()["ExecStart"]
    assert re.findall(r"%d/(\S+?)[ \"]", options) == copied
    assert options_in(options) <= OPTIONS


def test_the_unit_has_a_descriptor_for_every_connection_that_there_may_be() -> None:
    assert int(service()["LimitNOFILE"]) > Limits().connections_max + Limits().unopened_max


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/srv/holdfast/.venv/bin/holdfast", "/bin/true"), "utf-8")
    (tmp_path / f"{UNIT.name}.d").mkdir()
    shutil.copy(TLS, tmp_path / f"{UNIT.name}.d")

    verdict = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", str(unit)], capture_output=True, text=True, check=False
    )

    assert (verdict.returncode, verdict.stderr) == (0, "")


def test_the_container_serves_with_options_that_there_are() -> None:
    command = entry_point()

    assert command[1] == "serve"
    assert {word for word in command if word.startswith("--")} <= OPTIONS
    assert instructions("CMD") == [], "arguments of `docker run` would take its place"


def test_the_container_has_stopped_before_docker_kills_it() -> None:
    command = entry_point()

    drain_s = float(command[command.index("--drain") + 1])

    # Then the rooms are closed and the links end. A store that hangs as well may take longer, and loses nothing.
    assert drain_s + Limits().close_s * 2 < DOCKER_STOP_S


@pytest.mark.parametrize("page", [DOCKERFILE, DEPLOYING], ids=["Dockerfile", "deploying.md"])
def test_a_container_is_shown_to_this_machine_only_and_a_longer_drain_has_the_time_it_takes(page: str) -> None:
    runs = [line for line in page.splitlines() if "docker run " in line and " chat" in line]

    published = re.findall(r" -p (\S+)", "\n".join(runs))
    longer = re.findall(r"--stop-timeout (\d+) .* --drain (\d+)", "\n".join(runs))

    assert published
    assert set(published) == {"127.0.0.1:7777:7777"}
    assert longer
    assert all(
        int(timeout) > int(drain) + Limits().close_s * 2 + Limits().commit_timeout_s for timeout, drain in longer
    )


def test_the_container_shows_the_ports_that_are_served_by_default() -> None:
    defaults = {parameter.name: parameter.default for parameter in serve.params}

    (ports,) = instructions("EXPOSE")

    assert set(ports.split()) == {str(defaults[name]) for name in ("port", "http_port", "tcp_port")}


def test_the_container_copies_what_there_is_and_does_not_run_as_root() -> None:
    copied = [
        word
        for line in instructions("COPY")
        if not line.startswith("--from")
        for word in line.split()[:-1]
        if "$" not in word
    ]

    assert copied
    assert all((ROOT / each).exists() for each in copied)
    assert instructions("USER") == ["holdfast"]
    assert instructions("STOPSIGNAL") == ["SIGTERM"]
