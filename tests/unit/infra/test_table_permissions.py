"""A function may use each operation of its DynamoDB client on its tables.

Source: AWS documentation, DynamoDB developer guide, "Using IAM with DynamoDB transactions": Put, Update and Delete of a
transaction need the permissions of PutItem, UpdateItem and DeleteItem.
"""

import ast
import inspect
import re
from pathlib import Path

from masscomm.aws import client, dynamodb

ROOT = Path(__file__).parents[3]
# Operations that are granted for single tables.
OF_OTHERS = {"Scan"}


def _granted() -> set[str]:
    """Return the actions that infra/cdk/stacks/grants.py grants, without importing the CDK."""
    for node in ast.parse((ROOT / "infra/cdk/stacks/grants.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_TABLE_ACTIONS":
            return set(ast.literal_eval(node.value))
    raise AssertionError("grants.py has no _TABLE_ACTIONS")


def test_each_operation_of_the_client_is_granted() -> None:
    operations = set(re.findall(r'self\._ask\("(\w+)"', inspect.getsource(client.DynamoDb)))
    assert {"PutItem", "Query", "TransactWriteItems"} <= operations
    writes = re.findall(r'TransactItems=\[\{"(\w+)"', inspect.getsource(dynamodb))
    assert writes == ["Put"]
    needed = operations - {"TransactWriteItems"} - OF_OTHERS | {f"{write}Item" for write in writes}
    assert needed <= _granted()
