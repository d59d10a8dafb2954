"""The local stack creates the tables of the example whose source.yaml is in the place of schemas/source.yaml."""

from pathlib import Path

import pytest

from devstack import config
from devstack.config import EXAMPLE, ROOT, StackConfig, example
from devstack.services import all_services


def test_example_is_that_of_the_mapping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stack = StackConfig(tmp_path)
    assert example() == EXAMPLE
    assert "example_monolith" in all_services(stack)
    for folder, text in (("schemas", "own"), ("examples/shop", "own"), ("examples/crm", "other")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "source.yaml").write_text(text)
    monkeypatch.setattr(config, "ROOT", tmp_path)
    assert example() == tmp_path / "examples" / "shop"
    assert "example_monolith" not in all_services(stack)
    (tmp_path / "schemas" / "source.yaml").write_text("a customer's")
    assert example() == EXAMPLE
    assert (ROOT / "examples" / "crm" / "rows.sql").is_file()
