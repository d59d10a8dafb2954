"""The local stack creates the tables of the example whose source.yaml MASSCOMM_SOURCE names."""

from importlib import import_module
from pathlib import Path

import pytest

from local.devstack import config
from local.devstack.config import EXAMPLE, ROOT, StackConfig, example
from local.devstack.services import all_services, example_monolith


def test_example_is_that_of_the_mapping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert example() == EXAMPLE
    for folder in ("shop", "crm"):
        (tmp_path / "examples" / folder).mkdir(parents=True)
        (tmp_path / "examples" / folder / "source.yaml").write_text(folder)
    monkeypatch.setattr(config, "ROOT", tmp_path)
    own = tmp_path / "my-source.yaml"
    monkeypatch.setenv("MASSCOMM_SOURCE", str(own))
    own.write_text("shop")
    assert example() == tmp_path / "examples" / "shop"
    own.write_text("a customer's")
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
