"""The local stack creates the tables of the example whose source.yaml is in the place of schemas/source.yaml."""

from importlib import import_module
from pathlib import Path

import pytest

from local.devstack import config
from local.devstack.config import EXAMPLE, ROOT, StackConfig, example
from local.devstack.services import all_services, example_monolith


def test_example_is_that_of_the_mapping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert example() == EXAMPLE
    for folder, text in (("schemas", "own"), ("examples/shop", "own"), ("examples/crm", "other")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "source.yaml").write_text(text)
    monkeypatch.setattr(config, "ROOT", tmp_path)
    assert example() == tmp_path / "examples" / "shop"
    (tmp_path / "schemas" / "source.yaml").write_text("a customer's")
    assert example() == EXAMPLE
    assert (ROOT / "examples" / "crm" / "rows.sql").is_file()


@pytest.mark.parametrize("name", ["monolith", "crm"])
def test_each_example_has_a_consumer_of_preferences(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(example_monolith, "example", lambda: ROOT / "examples" / name)
    command = all_services(StackConfig(tmp_path))["example_monolith"].command
    module = command[command.index("-m") + 1]
    assert module == f"examples.{name}.apply_preferences"
    assert import_module(module).apply


def test_database_of_ones_own_has_no_consumer_here(tmp_path: Path) -> None:
    assert "example_monolith" not in all_services(StackConfig(tmp_path, monolith_url="postgresql://u:p@127.0.0.1/own"))
