from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families

from holdfast.core.metrics import Metric, Reading, Spread
from holdfast.http.exposition import Exposition
from holdfast.http.keys import Scope
from tests.http.world import KEYS, SECRETS, World, problem_in


async def test_metrics_are_told_in_the_text_format_of_prometheus(world: World) -> None:
    client = await world.client()
    world.backend.add_session("s", "ada")

    response = await client.get("/metrics")

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    (sample,) = families["holdfast_sessions"].samples
    assert (sample.labels, sample.value) == ({"status": "connected"}, 1)
    assert families["holdfast_sessions"].documentation == "Sessions that live."
    # Of every Python process.
    assert families["process_cpu_seconds"].samples[0].value > 0
    assert "python_info" in families


async def test_what_prometheus_sends_along_is_no_reason_to_refuse_it(world: World) -> None:
    client = await world.client()
    headers = {
        "Accept": "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5",
        "Accept-Encoding": "gzip",
        "User-Agent": "Prometheus/3.5.0",
        "X-Prometheus-Scrape-Timeout-Seconds": "10",
    }

    response = await client.get("/metrics", headers=headers)

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")


async def test_where_there_are_keys_prometheus_needs_one_that_may_read(world: World) -> None:
    server = await world.serve(KEYS)

    stranger = await (await world.client(server)).get("/metrics")
    reader = await (await world.client(server, SECRETS[Scope.READ])).get("/metrics")

    problem_in(stranger, 401, "not_authenticated")
    assert reader.status_code == 200


async def test_single_sessions_are_asked_for_only_if_the_limits_say_so(world: World) -> None:
    none = await world.client(await world.serve())
    some = await world.client(await world.serve(metrics_sessions_max=20))

    await none.get("/metrics")
    await some.get("/metrics")

    assert world.backend.told == [("metrics", 0), ("metrics", 20)]


async def test_a_histogram_has_its_buckets_their_count_and_their_sum() -> None:
    metric = Metric("holdfast_wait_seconds", "histogram", "How long.", ("kind",))
    reading = Reading(metric, {("arena",): Spread((0.1, 1.0), [2, 3, 4], 12.5)})

    text = (await Exposition().text([reading])).decode()

    *_, family = text_string_to_metric_families(text)
    assert family.type == "histogram"
    assert [(sample.name, sample.labels.get("le"), sample.value) for sample in family.samples] == [
        ("holdfast_wait_seconds_bucket", "0.1", 2),
        ("holdfast_wait_seconds_bucket", "1.0", 3),
        ("holdfast_wait_seconds_bucket", "+Inf", 4),
        ("holdfast_wait_seconds_count", None, 4),
        ("holdfast_wait_seconds_sum", None, 12.5),
    ]
    assert {sample.labels["kind"] for sample in family.samples} == {"arena"}


async def test_words_that_would_break_the_text_are_escaped() -> None:
    reading = Reading(Metric("holdfast_rooms", "gauge", "Rooms.", ("kind",)), {('a"b\\c\nd',): 1})

    text = (await Exposition().text([reading])).decode()

    *_, family = text_string_to_metric_families(text)
    assert family.samples[0].labels == {"kind": 'a"b\\c\nd'}


async def test_nothing_is_put_into_the_registry_that_a_game_may_use_for_itself() -> None:
    before = list(REGISTRY.collect())

    await Exposition().text([Reading(Metric("holdfast_rooms", "gauge", "Rooms."), {(): 1})])

    assert [family.name for family in REGISTRY.collect()] == [family.name for family in before]
