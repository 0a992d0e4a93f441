"""The description of the API, as a validator that knows nothing of us reads it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

from stepwell.http import Role
from stepwell.http.routes import OPERATIONS
from tests.http.desk import Desk


async def _document(desk: Desk) -> dict[str, Any]:
    answer = await desk.ask("GET", "/api/openapi.json", role=Role.VIEWER)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_it_is_valid_openapi_3_1_and_names_every_operation(desk: Desk) -> None:
    document = await _document(desk)

    assert document["openapi"].startswith("3.1")
    OpenAPIV31SpecValidator(document).validate()
    named = {each["operationId"] for path in document["paths"].values() for each in path.values()}
    assert named == {operation.name for operation in OPERATIONS}


@pytest.mark.parametrize("broken", ["responses", "operationId", "schema"])
async def test_the_validator_would_notice(desk: Desk, broken: str) -> None:
    document = copy.deepcopy(await _document(desk))
    operation = document["paths"]["/api/runs"]["get"]
    match broken:
        case "responses":
            operation["responses"] = "many"
        case "operationId":
            operation["operationId"] = document["paths"]["/api/workers"]["get"]["operationId"]
        case _:
            operation["responses"]["200"]["content"]["application/json"]["schema"] = {"$ref": "#/components/nowhere"}
    with pytest.raises(Exception) as caught:
        OpenAPIV31SpecValidator(document).validate()
    assert isinstance(caught.value, OpenAPIValidationError) or "nowhere" in str(caught.value)
