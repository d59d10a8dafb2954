"""The sources of ports and state folder have an order of precedence, and invalid values are refused."""

import json
import socket
from dataclasses import asdict
from pathlib import Path

import pytest

from local.devstack import provision
from local.devstack.config import ROOT, ConfigError, Ports, StackConfig, is_free
from local.devstack.handle import RunningStack
from local.devstack.service import base_environment, function_environment
from local.devstack.services import all_services
from local.devstack.state import RunState
from local.emulators.event_source import Pollers
from masscomm.domain.source_tables import source_file


def test_argument_overrides_environment_overrides_default(tmp_path: Path) -> None:
    environment = {"MASSCOMM_STATE": str(tmp_path), "MASSCOMM_PORT_KAFKA": "19092", "MASSCOMM_PORT_CONNECT": "18083"}
    config = StackConfig.from_environment(environment, {"kafka": 29092})
    assert (config.ports.kafka, config.ports.connect, config.ports.gateway) == (29092, 18083, Ports().gateway)
    assert config.state_dir == tmp_path
    assert StackConfig.from_environment({}).state_dir == ROOT / ".state"


@pytest.mark.parametrize(
    ("environment", "ports", "named"),
    [
        ({"MASSCOMM_PORT_KAFKA": "many"}, {}, "MASSCOMM_PORT_KAFKA=many"),
        ({}, {"kafka": 70000}, "70000"),
        ({}, {"kavka": 9092}, "no port named kavka"),
        ({}, {"kafka": 18083, "connect": 18083}, "18083 is given to both kafka and connect"),
    ],
)
def test_a_port_that_cannot_be_used_is_named(environment: dict[str, str], ports: dict[str, int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        StackConfig.from_environment(environment, ports)


def test_free_ports_are_distinct_and_outside_the_ephemeral_range(tmp_path: Path) -> None:
    ports = list(asdict(StackConfig.on_free_ports(tmp_path).ports).values())
    assert len(set(ports)) == len(ports)
    assert all(is_free(port) and port < 32768 for port in ports)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - a server on all addresses is the case
def test_port_bound_on_any_address_is_in_use(address: str) -> None:
    with socket.create_server((address, 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_config_from_its_json_is_equal(tmp_path: Path) -> None:
    config = StackConfig.from_environment({"MASSCOMM_STATE": str(tmp_path), "MASSCOMM_PORT_KAFKA": "19092"})
    assert config.bulk_nice > 0
    assert StackConfig.from_dict(config.as_dict()) == config


def test_source_is_an_absolute_path_for_the_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my-source.yaml").write_text("tables: {}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MASSCOMM_SOURCE", "my-source.yaml")
    config = StackConfig.from_environment()
    assert function_environment(config)["MASSCOMM_SOURCE"] == str(tmp_path / "my-source.yaml")
    assert base_environment()["MASSCOMM_SOURCE"] == str(tmp_path / "my-source.yaml")
    assert StackConfig.from_dict(config.as_dict()).source == config.source
    assert "MASSCOMM_SOURCE" not in function_environment(StackConfig(tmp_path))


def test_commands_read_the_source_of_the_running_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASSCOMM_SOURCE", "")
    monkeypatch.setenv("MASSCOMM_STATE", str(tmp_path))
    source = ROOT / "examples" / "crm" / "source.yaml"
    state = RunState(StackConfig(tmp_path, source=source))
    state.acquire()
    state.write({}, ready=True, start_s=1, peak_mb=1)
    assert RunningStack.here().config.source == source
    assert source_file() == source
    state.release()


def test_missing_source_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"typo\.yaml is not a file.*unset the variable"):
        StackConfig.from_environment({"MASSCOMM_SOURCE": str(tmp_path / "typo.yaml")})


def test_the_password_is_generated_once_a_state_folder(tmp_path: Path) -> None:
    one, other = StackConfig(tmp_path / "one"), StackConfig(tmp_path / "other")
    assert one.password == StackConfig(tmp_path / "one").password
    assert one.password != other.password
    assert len(one.password) >= 20


def test_monolith_of_its_own_is_captured_and_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "postgresql://shop:p%40ss@db.example.org/shop"
    config = StackConfig.from_environment({"MASSCOMM_STATE": str(tmp_path), "MASSCOMM_MONOLITH": url})
    assert "p%40ss" not in f"{config!r}{config.as_dict()}", "the record of a run is readable"
    captured: list[str] = []
    monkeypatch.setattr(provision, "put_connector", lambda _connect, _generation, url: captured.append(url))
    monkeypatch.setattr(provision, "apply_sql", lambda *_: pytest.fail("its tables are not ours to create"))
    tasks = {task.name: task for task in provision.provisioning(config)}
    tasks["monolith"].run()
    tasks["connector"].run()
    assert captured == [url]
    connector = provision.connector_config("g1", url)
    assert (connector["database.password"], connector["database.port"]) == ("p@ss", "5432")


def test_job_of_own_topics_runs_only_if_it_is_configured(tmp_path: Path) -> None:
    assert "spark_events" not in all_services(StackConfig(tmp_path))
    file = tmp_path / "sources.yaml"
    environment = {"MASSCOMM_STATE": str(tmp_path), "MASSCOMM_EVENT_SOURCES": str(file)}
    with pytest.raises(ConfigError, match=r"MASSCOMM_EVENT_SOURCES=.* is not a file"):
        StackConfig.from_environment(environment)
    file.write_text("")
    config = StackConfig.from_environment(environment)
    assert StackConfig.from_dict(config.as_dict()).event_sources == file
    assert all_services(config)["spark_events"].environment["SPARK_EVENT_SOURCES"] == str(file)


def test_environments_of_the_chain_are_configured(tmp_path: Path) -> None:
    folder = {"MASSCOMM_STATE": str(tmp_path)}
    assert StackConfig.from_environment(folder).environments is None
    config = StackConfig.from_environment(folder | {"MASSCOMM_FUNCTION_ENVIRONMENTS": "4"})
    assert StackConfig.from_dict(config.as_dict()).environments == 4
    (content,) = all_services(config)["lambda_host"].files.values()
    assert json.loads(content)["environments"] == 4
    for text in ("0", "101", "many"):
        with pytest.raises(ConfigError, match=f"MASSCOMM_FUNCTION_ENVIRONMENTS={text} is not a number"):
            StackConfig.from_environment(folder | {"MASSCOMM_FUNCTION_ENVIRONMENTS": text})


def test_mode_of_the_pollers_is_configured(tmp_path: Path) -> None:
    folder = {"MASSCOMM_STATE": str(tmp_path)}
    assert StackConfig.from_environment(folder).pollers is Pollers.PROVISIONED
    config = StackConfig.from_environment(folder | {"MASSCOMM_POLLERS": "on-demand"})
    assert StackConfig.from_dict(config.as_dict()).pollers is Pollers.ON_DEMAND
    (content,) = all_services(config)["lambda_host"].files.values()
    assert json.loads(content)["pollers"] == "on-demand"
    with pytest.raises(ConfigError, match=r"MASSCOMM_POLLERS=often is no mode"):
        StackConfig.from_environment(folder | {"MASSCOMM_POLLERS": "often"})
