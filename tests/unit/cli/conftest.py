from collections.abc import Iterator

import pytest

from tests.support.servers.answering_server import AnsweringServer, answering


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[AnsweringServer]:
    """The API of a command, with prepared answers. The module's function `read` returns what is kept of a request."""
    with answering(request.module.read) as made:
        monkeypatch.setenv("MASSCOMM_API_URL", made.url)
        monkeypatch.setenv("MASSCOMM_API_KEY", "mc_test")
        yield made
