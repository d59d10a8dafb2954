"""The console with the functions in memory behind the local gateway."""

from collections.abc import Iterator

import pytest

from local.devstack.services.lambda_host import CONSOLE
from masscomm.stores.metrics.in_memory import InMemoryMetricsStore
from tests.support.harness import console_pictures, rest_api


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> InMemoryMetricsStore:
    """The counts of the functions, which have the data of the pictures."""
    return console_pictures.build(monkeypatch)


@pytest.fixture
def url(store: InMemoryMetricsStore) -> Iterator[str]:
    with rest_api.serving(CONSOLE) as address:
        yield address


@pytest.fixture
def url_of_one_send(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of functions that have one send and user 42."""
    rest_api.build(monkeypatch)
    with rest_api.serving(CONSOLE) as address:
        yield address


@pytest.fixture(scope="module")
def url_of_pages() -> Iterator[str]:
    """The address of functions that have the data of the pictures, for the pages of a module that change nothing."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        console_pictures.build(monkeypatch)
        with rest_api.serving(CONSOLE) as address:
            yield address
