from holdfast.http.api import Scope
from tests.http.world import KEYS, SECRETS, World, problem_in


async def test_metrics_are_told_in_the_text_format_of_prometheus(world: World) -> None:
    client = await world.client()
    world.backend.add_session("s", "ada")

    response = await client.get("/metrics")

    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.text == 'holdfast_sessions{status="connected"} 1\n'


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
