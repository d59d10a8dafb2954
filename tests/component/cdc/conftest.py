"""The servers of the CDC tests, once for all of them."""

from collections.abc import Iterator

import pytest

from devstack.settings import StackSettings
from devstack.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StackSettings]:
    settings = StackSettings.on_free_ports(tmp_path_factory.mktemp("stack"))
    with Stack(settings, ["connect", "postgres", "opensearch"]):
        yield settings
