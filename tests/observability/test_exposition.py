"""What `GET /metrics` answers, as Prometheus reads it."""

from prometheus_client import REGISTRY, Metric
from prometheus_client.parser import text_string_to_metric_families

from holdfast import PlayerData, Room, Server
from tests.server.world import World


class Arena(Room[PlayerData]):
    pass


async def parsed(server: Server) -> dict[str, Metric]:
    text = (await server.parts.exposition.text()).decode()
    return {family.name: family for family in text_string_to_metric_families(text)}


async def test_metrics_of_the_node_and_of_the_process_are_one_text(world: World) -> None:
    server = await world.serve(Arena)
    await world.connect(server)
    families = await parsed(server)

    values = {sample.labels["status"]: sample.value for sample in families["holdfast_sessions"].samples}
    assert values == {"preconnect": 0, "connected": 1, "disconnected": 0}
    assert families["holdfast_sessions"].documentation.startswith("Open sessions, by status;")
    assert families["process_cpu_seconds"].samples[0].value > 0
    assert "python_info" in families


async def test_a_histogram_has_its_buckets_their_count_and_their_sum(world: World) -> None:
    server = await world.serve(Arena)
    for _ in range(3):
        server.parts.metrics.commit_batches.observe(4)
    families = await parsed(server)

    family = families["holdfast_commit_batches"]
    values = {sample.labels.get("le", sample.name): sample.value for sample in family.samples}
    assert family.type == "histogram"
    assert (values["2.0"], values["5.0"], values["+Inf"]) == (0, 3, 3)
    assert (values["holdfast_commit_batches_count"], values["holdfast_commit_batches_sum"]) == (3, 12)
    assert "holdfast_commit_batches_created" not in families


async def test_words_that_would_break_the_text_are_escaped(world: World) -> None:
    server = await world.serve(Arena, name='a"b\\c\nd')
    families = await parsed(server)

    assert families["holdfast_node_info"].samples[0].labels["node"] == 'a"b\\c\nd'


async def test_nothing_is_put_into_the_registry_that_a_game_may_use_for_itself(world: World) -> None:
    before = [family.name for family in REGISTRY.collect()]

    server = await world.serve(Arena)
    await parsed(server)

    assert [family.name for family in REGISTRY.collect()] == before
