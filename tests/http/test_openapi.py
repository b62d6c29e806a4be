"""The OpenAPI document: valid, complete, and as strict as the API is."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.http.app import document as document_of
from holdfast.http.errors import KINDS
from holdfast.http.openapi import field_docs
from holdfast.schemas.room import RoomInfo
from tests.http.routes import NAMES, ROUTES, Route
from tests.http.world import World

Json = dict[str, Any]


@pytest.fixture(scope="module")
def document() -> Json:
    return document_of(has_keys=True)


def operation_of(document: Json, route: Route) -> Json:
    operation: Json = document["paths"][route.path][route.method.lower()]
    return operation


def references_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for inner in value.values():
            yield from references_in(inner)
    if isinstance(value, list):
        for inner in value:
            yield from references_in(inner)


async def test_it_is_served_to_everybody(world: World) -> None:
    client = await world.client()

    answer = await client.get("/openapi.json")

    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["openapi"] == "3.1.0"


def test_it_is_a_valid_document_of_openapi_3_1(document: Json) -> None:
    # Imported here: it takes a second, and every worker imports this module.
    import schemathesis  # noqa: PLC0415

    schemathesis.openapi.from_dict(document).validate()


def test_it_has_exactly_the_routes_of_the_api(document: Json) -> None:
    found = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}

    assert found == set(NAMES)


def test_everything_that_it_refers_to_is_there(document: Json) -> None:
    names = {reference.removeprefix("#/components/schemas/") for reference in references_in(document)}

    assert names == set(document["components"]["schemas"])


def test_every_route_says_what_it_does_needs_takes_and_answers(document: Json) -> None:
    for route in ROUTES:
        operation = operation_of(document, route)

        assert operation["summary"]
        assert operation["description"]
        assert operation["tags"]
        assert operation.get("security", []) == ([{"key": [route.scope.value]}] if route.scope else [])
        assert {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "path"} == set(
            re.findall(r"{(\w+)}", route.path)
        )
        assert ("requestBody" in operation) == (route.body is not None)
        success = [status for status in operation["responses"] if status < "300"]
        assert len(success) == 1


def test_every_error_of_a_route_is_documented_with_its_codes(document: Json) -> None:
    for route in ROUTES:
        responses = operation_of(document, route)["responses"]
        expected = {"400", "403", "500"}
        expected |= {"401"} if route.scope else set()
        expected |= {"413", "415"} if route.body else set()
        expected |= {"404", "414"} if "{" in route.path else set()

        assert expected <= responses.keys()
        for status, response in responses.items():
            if status >= "400":
                [media_type] = response["content"]
                assert media_type == "application/problem+json"
                for code, example in response["content"][media_type]["examples"].items():
                    assert str(KINDS[code].status) == status
                    assert example["value"]["code"] == code
                    assert f"`{code}`" in response["description"]


def test_operations_have_names_of_their_own(document: Json) -> None:
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]

    assert len(names) == len(set(names)) == len(ROUTES)


def test_without_keys_none_is_asked_for() -> None:
    document = document_of(has_keys=False)

    assert "securitySchemes" not in document["components"]
    assert not any("security" in operation for methods in document["paths"].values() for operation in methods.values())


def test_a_request_is_described_as_strictly_as_it_is_checked(document: Json) -> None:
    wish = document["components"]["schemas"]["Create"]

    assert wish["additionalProperties"] is False
    assert wish["required"] == ["kind"]
    assert wish["properties"]["max_players"]["anyOf"][0] == {"type": "integer", "maximum": 100_000}
    assert wish["properties"]["properties"]["propertyNames"] == {"minLength": 1, "maxLength": 64}
    assert {"type": "boolean"} in wish["properties"]["properties"]["additionalProperties"]["anyOf"]


def test_an_answer_is_described_as_whole(document: Json) -> None:
    room = document["components"]["schemas"]["RoomInfo"]

    assert room["required"] == list(RoomInfo.__struct_fields__)


def test_fields_are_described_in_the_words_of_their_source(document: Json) -> None:
    room = document["components"]["schemas"]["RoomInfo"]["properties"]
    update = document["components"]["schemas"]["RoomChanges"]["properties"]

    assert room["reason"]["description"] == field_docs(RoomInfo)["reason"] == "Why it ended or failed."
    assert update["password"]["description"] == "An empty one removes the password."
    assert "description" not in room["kind"]


def test_a_search_is_described_parameter_by_parameter(document: Json) -> None:
    parameters = {
        parameter["name"]: parameter["schema"] for parameter in document["paths"]["/v1/rooms"]["get"]["parameters"]
    }

    assert parameters["limit"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}
    assert parameters["kind"] == {"type": "string", "minLength": 1, "maxLength": 64}
    assert parameters["order_by"]["items"] == {"type": "string", "maxLength": 96}
