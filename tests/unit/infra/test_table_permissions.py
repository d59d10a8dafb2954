"""A function may use on a table what the table's adapters do there, and nothing else: it deletes only where an adapter
deletes, and the audit log is appended to.

Source: AWS documentation, DynamoDB developer guide, "Using IAM with DynamoDB transactions": Put, Update and Delete of a
transaction need the permissions of PutItem, UpdateItem and DeleteItem.
"""

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.examples import ENVIRONMENTS
from infra.cdk.profiles import PROFILES
from masscomm.domain.time_limits import AUDIT_KEPT_S
from tests.support.cdk.templates import Resource, SynthesisedEnvironment, actions, role_statements, targets

ROOT = Path(__file__).parents[3]
# Methods of the client but `scan`, which only the erasure uses, and functions of these modules that call one.
MODULES = ("masscomm.aws.dynamodb", "masscomm.stores.conditional_puts")
METHODS = {
    "put_item": "PutItem",
    "update_item": "UpdateItem",
    "delete_item": "DeleteItem",
    "get_item": "GetItem",
    "batch_get_item": "BatchGetItem",
    "query": "Query",
}
FUNCTIONS = {
    "query_items": "Query",
    "read_items": "BatchGetItem",
    "write_items": "BatchWriteItem",
    "transact": "PutItem",
    "write_groups": "PutItem",
}
OF_A_TRANSACTION = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}
# The tables of adapters that are not a TableAdapter.
TABLES = {
    "api_keys": "api_keys",
    "digests": "frequency_caps",
    "decision_log": "decisions",
    "delayed_records": "waiting",
    "delivery_ledger": "delivery_ledger",
    "queue_leases_dynamodb": "broadcast_queues",
}


def _used(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if ast.unparse(owner).endswith("client"):
                called = ast.literal_eval(node.args[0]) if name == "get_paginator" else name
                if called in METHODS:
                    yield METHODS[called]
            case ast.ImportFrom(module=module, names=names) if module in MODULES:
                yield from (FUNCTIONS[each.name] for each in names if each.name in FUNCTIONS)
            case ast.Dict(keys=[ast.Constant(value=str() as name)]) if name in OF_A_TRANSACTION:
                yield OF_A_TRANSACTION[name]


def _table(path: Path, tree: ast.Module) -> str | None:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id="TABLE"), *_])],
                value=ast.Tuple(elts=[ast.Constant(value=str() as name), *_]),
            ):
                return name
    return TABLES.get(path.stem) or TABLES.get(path.parent.name)


@cache
def operations_by_table() -> dict[str, set[str]]:
    """Return what the adapters do on each table."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for folder in ("masscomm/stores", "functions"):
        for path in set((ROOT / folder).rglob("*.py")) - {ROOT / "masscomm/stores/conditional_puts.py"}:
            tree = ast.parse(path.read_text())
            if used := set(_used(tree)):
                table = _table(path, tree)
                assert table, f"{path.name} uses a table that has no name"
                found[table] |= used
    return dict(found)


@cache
def _definitions() -> dict[str, Any]:
    found = [json.loads(path.read_text()) for path in (ROOT / "schemas/dynamodb").glob("*.json")]
    return {each["table"]["TableName"]: each for each in found}


@cache
def _granted(environment: SynthesisedEnvironment) -> list[tuple[Resource, str, set[str]]]:
    """Return the policy, the table and the actions of each statement about a table."""
    return [
        (policy, name, {each for each in actions(statement) if each.startswith("dynamodb:")})
        for policy, statement in role_statements(environment)
        for name in _definitions()
        if any(f"tables{name.replace('_', '')}" in target for target in targets(statement))
    ]


def test_operations_of_a_table_are_those_of_its_adapters() -> None:
    stated = {
        name: {*each["operations"], *each.get("operations_of_emitters", ())} for name, each in _definitions().items()
    }
    assert stated == operations_by_table()


def test_emitters_of_outcomes_put_results_in_batches(environment: SynthesisedEnvironment) -> None:
    """They have no other write than before, and no other function has this one."""
    granted = [
        (policy.id.partition("role")[0].removesuffix("critical"), allowed)
        for policy, name, allowed in _granted(environment)
        if name == "sends" and "dynamodb:BatchWriteItem" in allowed and not policy.id.startswith("erase")
    ]
    emitters = {name.replace("_", "") for name, profile in PROFILES.items() if profile.emits_outcomes}
    assert {function for function, _ in granted} == emitters
    registering = {name.replace("_", "") for name, profile in PROFILES.items() if "sends" in profile.tables}
    others = {f"dynamodb:{each}" for each in ("PutItem", "UpdateItem", "DeleteItem")}
    assert [function for function, allowed in granted if function not in registering and allowed & others] == []


def test_deletions_are_granted_where_an_adapter_deletes(environment: SynthesisedEnvironment) -> None:
    """Erasing a person deletes from tables that functions only write."""
    deleted = {name for name, used in operations_by_table().items() if "DeleteItem" in used}
    granted = {
        name
        for policy, name, allowed in _granted(environment)
        if "dynamodb:DeleteItem" in allowed and not policy.id.startswith("erase")
    }
    assert granted == deleted
    assert deleted


def test_each_function_may_use_the_tables_of_its_profile(environment: SynthesisedEnvironment) -> None:
    granted = _granted(environment)
    for function, profile in PROFILES.items():
        own = f"{function.replace('_', '')}role"
        found = {name for policy, name, allowed in granted if policy.id.startswith(own) and allowed}
        assert found == {*profile.every_table, *_marks(environment, function)}, function


def _marks(environment: SynthesisedEnvironment, function: str) -> set[str]:
    """Return the table in which a function with mappings in on-demand mode counts the attempts of its batches."""
    source = next(e.event_source for e in read_catalogue(generation="any") if e.package == function)
    on_demand = ENVIRONMENTS[environment.name].pollers is None
    return {"delivery_ledger"} if on_demand and source is not None and source.on_failure else set()


# Function → the tables to which it may write. Another function, mostly of the same package, may do more.
OF_SEPARATE_FUNCTIONS = {
    "metrics_handler": {"key_usage"},
    "metrics_stream": {"key_usage", "open_polls"},
    "sends_stream": {"key_usage", "open_polls"},
    "users_stream": {"audit_log", "key_usage", "open_polls"},
    "previews": {"key_usage", "open_polls"},
    "key_revocation": {"api_keys", "audit_log", "key_usage", "open_polls"},
}


@pytest.mark.parametrize("function", OF_SEPARATE_FUNCTIONS)
def test_separate_function_has_no_other_permissions(environment: SynthesisedEnvironment, function: str) -> None:
    own = f"{function.replace('_', '')}role"
    allowed = {
        action
        for policy, statement in role_statements(environment)
        if policy.id.startswith(own)
        for action in actions(statement)
    }
    assert not {each for each in allowed if each.startswith(("kafka-cluster:", "sns:", "ses:", "secretsmanager:"))}
    assert function in ("previews", "users_stream") or not {each for each in allowed if each.startswith("es:")}
    writes = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem"}
    written = {name for policy, name, found in _granted(environment) if policy.id.startswith(own) and found & writes}
    assert written == OF_SEPARATE_FUNCTIONS[function]


@pytest.mark.guarantee("audit.entries_stay")
def test_audit_log_is_appended_to_and_read(environment: SynthesisedEnvironment) -> None:
    granted = [allowed for _, name, allowed in _granted(environment) if name == "audit_log"]
    assert granted
    of_the_stream = {f"dynamodb:{each}" for each in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")}
    assert set().union(*granted) - of_the_stream == {"dynamodb:PutItem", "dynamodb:Query"}


def test_copy_of_the_audit_log_is_kept_as_long_as_the_log(environment: SynthesisedEnvironment) -> None:
    """In compliance mode nobody can shorten the retention, the owner of the account included.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html#object-lock-retention-modes
    """
    locked = [each for each in environment.resources("AWS::S3::Bucket") if "ObjectLockConfiguration" in each.properties]
    streams = {
        each.properties["TableName"]: each.properties["StreamSpecification"]["StreamViewType"]
        for each in environment.resources("AWS::DynamoDB::Table")
        if "StreamSpecification" in each.properties
    }
    if not ENVIRONMENTS[environment.name].protected:
        assert (locked, streams) == ([], {})
        return
    [bucket] = locked
    assert bucket.properties["ObjectLockConfiguration"]["Rule"] == {
        "DefaultRetention": {"Days": AUDIT_KEPT_S // 86_400, "Mode": "COMPLIANCE"}
    }
    assert streams == {f"masscomm-{environment.name}-audit_log": "NEW_AND_OLD_IMAGES"}
    assert [
        actions(statement)
        for _, statement in role_statements(environment)
        if any(bucket.id in target for target in targets(statement))
    ] == [{"s3:PutObject"}]
