"""The licence list agrees with the bills of materials, and reports licences that need a decision."""

from typing import Any

import pytest

from infra.supply_chain.licences import UNNAMED, Component, components, faults


def entry(name: str, *choices: dict[str, Any], **more: str) -> dict[str, Any]:
    return {"name": name, "version": "1", "licenses": list(choices), **more}


def test_component_of_several_boms_is_listed_once() -> None:
    """The component's licences are those of all bills of materials."""
    jar = entry("core", {"license": {"id": "MIT"}}, {"license": {"name": "Public Domain"}}, group="org.example")
    package = entry("package", {"expression": "Apache-2.0 OR MIT"})
    found = components([{"components": [jar, package]}, {"components": [jar]}])
    assert found == [
        Component("org.example:core", "1", ("MIT", "Public Domain")),
        Component("package", "1", ("Apache-2.0 OR MIT",)),
    ]
    assert list(faults(found)) == []


def test_component_without_licence_is_a_fault_until_looked_up() -> None:
    looked_up = next(iter(UNNAMED))
    found = components([{"components": [entry("nobody-knows"), entry(looked_up)]}])
    assert [fault.split()[0] for fault in faults(found)] == ["nobody-knows"]


@pytest.mark.parametrize("licence", ["AGPL-3.0-only", "GNU Affero General Public License v3", "SSPL-1.0", "BUSL-1.1"])
def test_licence_restricting_a_service_without_choice_is_a_fault(licence: str) -> None:
    refused = entry("refused", {"license": {"name": licence}})
    choice = entry("choice", {"license": {"name": licence}}, {"license": {"id": "MIT"}})
    assert [fault.split()[0] for fault in faults(components([{"components": [refused, choice]}]))] == ["refused"]


def test_our_own_lists_of_jars_are_not_components() -> None:
    assert components([{"components": [entry("kafka", group="masscomm.devstack")]}]) == []
