"""The commands in docs/runbooks exist and are complete.

Their routes, settings and metrics: tests/unit/test_docs_reference.py. Those that a local stack can execute are executed
by tests/e2e/test_full_stack.py.
"""

import re
from functools import cache

import botocore.session
import pytest
from botocore import xform_name

from cli.reference import all_commands
from tests.support.runbooks import RUNBOOKS, commands


@pytest.mark.parametrize("runbook", RUNBOOKS)
def test_commands_of_a_runbook_are_complete(runbook: str) -> None:
    """Each has its required arguments, and options that exist. The dead letters of an operation are chosen. A command
    without any word after its name is only mentioned.
    """
    for words in commands(runbook, "masscomm"):
        names = next(
            tuple(words[:count]) for count in (3, 2, 1) if count == 1 or tuple(words[:count]) in all_commands()
        )
        given = ["1" if word == "CLUB" else word for word in words[len(names) :]]
        if not given:
            assert names in all_commands()
            continue
        all_commands()[names].make_context(" ".join(names), [*given])
        if names[0] == "dead-letters" and names[1] in ("replay", "discard"):
            assert {"--all", "--reason"} & set(given) or "@" in given[0], f"{' '.join(words)} chooses no letter"


def test_incomplete_command_is_found() -> None:
    with pytest.raises(Exception, match="Missing parameter: send_id"):
        all_commands()[("sends", "pause")].make_context("sends pause", [])


@cache
def parameters_of_aws(service: str, operation: str) -> set[str]:
    """Return the options of a command of the AWS CLI. Raises KeyError, or botocore's UnknownServiceError."""
    model = botocore.session.get_session().get_service_model(service)
    names = {xform_name(name, "-"): name for name in model.operation_names}
    shape = model.operation_model(names[operation]).input_shape
    return {xform_name(name, "-") for name in shape.members} if shape is not None else set()


@pytest.mark.parametrize("runbook", RUNBOOKS)
def test_commands_of_aws_exist(runbook: str) -> None:
    for service, operation, *given in commands(runbook, "aws"):
        options = {re.sub(r"^--(no-)?", "", word) for word in given if word.startswith("--")}
        assert options - parameters_of_aws(service, operation) == set(), f"aws {service} {operation}"


def test_unknown_operation_of_aws_is_found() -> None:
    with pytest.raises(KeyError):
        parameters_of_aws("kafka", "mend-topic")
    assert "topic-name" in parameters_of_aws("kafka", "update-topic")
