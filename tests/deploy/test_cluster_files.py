"""What deploys a cluster: Compose, Kubernetes, systemd, HAProxy and NATS, each read by what reads it in earnest."""

import asyncio
import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml  # type: ignore[import-untyped]  # has no types of its own

from holdfast import Limits, PlayerData, Room, Server
from holdfast.cli.serve import serve
from holdfast.stores import NatsStore, StoreError, Unavailable
from holdfast.stores.nats.address import parse_address
from tests.deadlines import DEADLINE_S
from tests.nats_server import SERVER
from tests.ports import free_ports

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="not installed: make setup")
pytest.importorskip("check_jsonschema", reason="not installed: make setup")

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
OPTIONS = {word for parameter in serve.params for word in parameter.opts}
KUBERNETES = "1.33"
# Closing connections and the last commits, after a drain.
ENDING_S = 2 * Limits().close_s + Limits().commit_timeout_s
PASSWORD = "1e5" + "0" * 61  # of digits that could be a number
UNITS = ("holdfast-node@.service", "holdfast-workers@.service", "nats@.service")


def options_in(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("--")}


def drain_in(words: list[str]) -> float:
    [drain] = [float(word.partition("=")[2]) for word in words if word.startswith("--drain=")]
    return drain


def seconds(text: str) -> float:
    assert text.endswith("s")
    return float(text.removesuffix("s"))


# Compose


def compose_schema() -> dict[str, Any]:
    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema: dict[str, Any] = json.loads(vendored.read_text("utf-8"))
    return schema


def test_the_compose_file_is_one_and_a_mistake_in_it_would_be_found() -> None:
    jsonschema.validate(COMPOSE, compose_schema())

    broken = {**COMPOSE, "services": {**COMPOSE["services"], "node-1": {**COMPOSE["services"]["node-1"], "prots": []}}}
    with pytest.raises(jsonschema.ValidationError, match="prots"):
        jsonschema.validate(broken, compose_schema())


def test_the_nodes_of_the_compose_file_are_told_what_there_is() -> None:
    nodes = [each for name, each in COMPOSE["services"].items() if name.startswith("node-")]
    servers = [name for name in COMPOSE["services"] if name.startswith("nats-")]

    assert len(nodes) == len(servers) == 3
    for node in nodes:
        words = [*node["entrypoint"], *node["command"]]
        assert options_in(words) <= OPTIONS
        assert seconds(node["stop_grace_period"]) > drain_in(words) + ENDING_S
        url = re.sub(r"\$\{[^}]*\}", "secret", node["environment"]["HOLDFAST_CLUSTER"])
        for name in ("ca.pem", "node.pem", "node.key"):
            assert f"/certs/{name}" in url
        address = parse_address(re.sub(r"/certs/[a-z.]+", __file__, url))
        assert address.is_encrypted
        assert address.user == "arena"
        assert [server.partition("//")[2] for server in address.servers] == [f"{name}:4222" for name in servers]
        assert address.monitors == tuple(f"http://{name}:8222" for name in servers)


def test_nothing_of_the_compose_file_is_open_to_other_machines_and_no_secret_is_in_it() -> None:
    published = [port for each in COMPOSE["services"].values() for port in each.get("ports", [])]

    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    assert re.findall(r"(?:PASSWORD|KEY)\S*:\?", text)
    assert "change-me" not in text


def test_only_the_balancer_speaks_for_players() -> None:
    [address] = [network["ipv4_address"] for network in COMPOSE["services"]["balancer"]["networks"].values()]

    for name in ("node-1", "node-2", "node-3"):
        words = COMPOSE["services"][name]["entrypoint"]
        assert f"--trusted-proxy={address}" in words
        assert "--insecure" not in words


def test_the_balancer_may_open_the_files_that_its_connections_need_and_tries_another_node_at_once() -> None:
    config = (DEPLOY / "haproxy.cfg").read_text("utf-8")
    [connections] = map(int, re.findall(r"(?m)^ +maxconn (\d+)$", config))

    assert COMPOSE["services"]["balancer"]["ulimits"]["nofile"] > 2 * connections
    assert re.search(r"(?m)^ +option redispatch 1$", config)


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="HAProxy is not installed")
def test_haproxy_understands_its_configuration() -> None:
    verdict = subprocess.run(
        [str(shutil.which("haproxy")), "-c", "-f", str(DEPLOY / "haproxy.cfg")], capture_output=True, check=False
    )

    assert verdict.returncode == 0, verdict.stderr


# Kubernetes


def manifests() -> Iterator[dict[str, Any]]:
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        yield from yaml.safe_load_all(file.read_text("utf-8"))


def one(kind: str, name: str) -> dict[str, Any]:
    [found] = [each for each in manifests() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_kubernetes_understands_every_manifest_and_a_mistake_would_be_found() -> None:
    checked = 0
    for manifest in manifests():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        checked += 1
    broken = one("Deployment", "holdfast")
    broken["spec"]["template"]["spec"]["containers"][0]["livenessprobe"] = {}

    assert checked >= 8
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES, strict=True)


def test_a_pod_has_the_time_to_drain_and_the_options_that_there_are() -> None:
    pod = one("Deployment", "holdfast")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    waits_s = float(container["lifecycle"]["preStop"]["exec"]["command"][1])

    assert options_in(container["args"]) <= OPTIONS
    assert pod["terminationGracePeriodSeconds"] > waits_s + drain_in(container["args"]) + ENDING_S
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"


@pytest.mark.parametrize(("kind", "name"), [("Deployment", "holdfast"), ("StatefulSet", "nats")])
def test_services_and_disruption_budgets_select_the_pods(kind: str, name: str) -> None:
    labels = one(kind, name)["spec"]["template"]["metadata"]["labels"]

    assert one("PodDisruptionBudget", name)["spec"]["selector"]["matchLabels"] == labels
    assert one("Service", name)["spec"]["selector"] == labels
    assert one(kind, name)["spec"]["selector"]["matchLabels"] == labels


# systemd


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
@pytest.mark.parametrize("name", UNITS)
def test_systemd_understands_the_units(name: str, tmp_path: Path) -> None:
    unit = tmp_path / name
    text = (DEPLOY / "systemd" / name).read_text("utf-8")
    unit.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", text), "utf-8")

    verdict = subprocess.run(
        [str(shutil.which("systemd-analyze")), "verify", str(unit)], capture_output=True, text=True, check=False
    )

    assert (verdict.returncode, verdict.stderr) == (0, "")


@pytest.mark.parametrize("name", UNITS[:2])
def test_the_units_serve_with_options_that_there_are_and_have_the_time_to_drain(name: str) -> None:
    text = (DEPLOY / "systemd" / name).read_text("utf-8")
    [command] = re.findall(r"(?m)^ExecStart=(.*)$", text)
    [drain_s] = re.findall(r"--drain (\d+)", command)
    [timeout_s] = re.findall(r"(?m)^TimeoutStopSec=(\d+)$", text)

    assert options_in(command.split()) <= OPTIONS
    assert float(timeout_s) > float(drain_s) + ENDING_S


# NATS


class Hall(Room[PlayerData]):
    durability = "commit"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[str]:
    """The address of three NATS servers with the configuration and the certificates that are shipped."""
    made = subprocess.run(  # noqa: ASYNC221 - nothing else runs yet
        ["/bin/sh", str(DEPLOY / "nats" / "certificates.sh"), "nats-1"], cwd=tmp_path, capture_output=True, check=False
    )
    assert made.returncode == 0, made.stderr
    ports = free_ports(6)
    servers = []
    for number in range(3):
        config = tmp_path / f"{number}.conf"
        config.write_text(configuration(tmp_path, number, ports))
        servers.append(
            await asyncio.create_subprocess_exec(
                *(str(SERVER), "-c", str(config)),
                env={**os.environ, "NATS_NAME": f"nats-{number + 1}", "NATS_PASSWORD": f'"{PASSWORD}"'},
                stderr=asyncio.subprocess.DEVNULL,
            )
        )
    try:
        yield ",".join(f"localhost:{port}" for port in ports[:3])
    finally:
        for server in servers:
            server.kill()
            await server.wait()


def configuration(folder: Path, number: int, ports: list[int]) -> str:
    """The shipped one, on ports and in folders of this test."""
    text = (DEPLOY / "nats" / "cluster.conf").read_text("utf-8")
    routes = ", ".join(f'"tls://localhost:{port}"' for port in ports[3:])
    for before, after in (
        ('listen: "0.0.0.0:4222"', f'listen: "127.0.0.1:{ports[number]}"'),
        ('http: "0.0.0.0:8222"', ""),
        ('listen: "0.0.0.0:6222"', f'listen: "127.0.0.1:{ports[3 + number]}"'),
        ('"tls://nats-1:6222", "tls://nats-2:6222", "tls://nats-3:6222"', routes),
        ('"/data"', f'"{folder}/data-{number}"'),
        ("/certs/", f"{folder}/certs/"),
    ):
        assert before in text
        text = text.replace(before, after)
    return text


async def test_game_nodes_with_the_secret_are_a_cluster_and_others_are_refused(cluster: str, tmp_path: Path) -> None:
    certs = f"ca={tmp_path}/certs/ca.pem"
    own = f"certificate={tmp_path}/certs/node.pem&key={tmp_path}/certs/node.key"
    url = f"tls://arena:{PASSWORD}@{cluster}/arena?{certs}&{own}"
    await leader_is_there(url)

    one, other = (Server([Hall], listen=[], cluster=url, name=name) for name in ("node-1", "node-2"))
    await one.start()
    await other.start()
    assert other.parts.cluster is not None
    others = other.parts.cluster.others
    await other.stop()
    await one.stop()

    assert others == ["node-1"]
    patience = Limits(nats_connect_s=1.0)
    for wrong, says in (
        (f"tls://arena:{PASSWORD}@{cluster}/arena?{certs}", "check the certificates"),
        (f"tls://arena:wrong@{cluster}/arena?{certs}&{own}", "check the user and the password"),
        (f"tls://{cluster}/arena?{certs}&{own}", "check the user and the password"),
        (f"tls://arena:{PASSWORD}@{cluster}/other?{certs}&{own}", "may not subscribe to hf.other"),
    ):
        with pytest.raises(Unavailable, match=says):
            await NatsStore(wrong, limits=patience).open("member")


async def leader_is_there(url: str) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            store = NatsStore(url)
            try:
                await store.open("member")
            except (StoreError, ValueError):
                await asyncio.sleep(0.1)
                continue
            await store.close()
            return
