"""Schemathesis finds no response of the local gateway that the OpenAPI document does not describe.

The short run has examples and boundary values, which are the same each time; `--nightly` adds random requests and
sequences of requests. Rules across fields are in no schema, so valid data may be refused (positive_data_acceptance);
such a problem names its fields. The gateway's own test checks keys (ignored_auth).
"""

from pathlib import Path

import pytest

from tests.support.harness import rest_api
from tests.support.schemathesis_run import check_responses


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(("--phases", "examples,coverage"), id="short"),
        pytest.param(("--max-examples", "500"), marks=pytest.mark.nightly, id="full"),
    ],
)
def test_no_response_differs_from_the_document(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: tuple[str, ...]
) -> None:
    rest_api.build(monkeypatch)
    with rest_api.serving() as url:
        check_responses(url, rest_api.KEY, tmp_path, *options)
