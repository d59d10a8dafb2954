"""Each deployed function has an OpenSearch role with its indices and actions, and an IAM role as backend role."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.profiles import ERASED_INDICES, PROFILES
from infra.provision import Deployed, directory_users
from masscomm.aws.authentication import OpenSearchSigner
from masscomm.aws.signature import Credentials
from ops.provisioning import ProvisioningError
from ops.provisioning.directory import DirectoryUser, create_indices, create_roles, outdated_roles
from tests.support.servers.http_server import Answer, Asked, http_server


class Domain:
    """A security API that stores roles and mappings."""

    def __init__(self) -> None:
        self.url = ""
        self.roles: dict[str, dict[str, Any]] = {}
        self.headers: list[dict[str, str]] = []
        self.status = 200

    def answer(self, asked: Asked) -> Answer:
        path, json_type = asked.path.removeprefix("/_plugins/_security/api/"), {"Content-Type": "application/json"}
        self.headers.append({name.lower(): value for name, value in asked.headers.items()})
        if asked.command == "PUT":
            self.roles[path] = json.loads(asked.body)
            return (200, json_type, b"{}") if self.status == 200 else (self.status, {}, b"no more roles")
        if (role := self.roles.get(path)) is None:
            return 404, json_type, b'{"status": "NOT_FOUND"}'
        # The domain adds members with defaults.
        return 200, json_type, json.dumps({path.partition("/")[2]: role | {"hidden": False}}).encode()


@pytest.fixture
def domain() -> Iterator[Domain]:
    made = Domain()
    with http_server(made.answer) as made.url:
        yield made


USER = DirectoryUser(
    name="masscomm-prod-delivery",
    role_arn="arn:aws:iam::000000000000:role/delivery",
    reads=("users", "device_state"),
    writes=("suppressions",),
)


def test_role_allows_a_functions_indices_of_all_generations(domain: Domain) -> None:
    create_roles(domain.url, [USER])
    read, written = domain.roles["roles/masscomm-prod-delivery"]["index_permissions"]
    assert read["index_patterns"] == ["users", "users-*", "device_state"]
    assert written["index_patterns"] == ["suppressions"]
    assert "write" in written["allowed_actions"]
    assert "write" not in read["allowed_actions"]


def test_directory_role_maps_to_the_functions_role_only(domain: Domain) -> None:
    create_roles(domain.url, [USER])
    assert domain.roles["rolesmapping/masscomm-prod-delivery"] == {
        "backend_roles": [USER.role_arn],
        "users": [],
        "hosts": [],
    }


def test_missing_and_changed_roles_are_pending(domain: Domain) -> None:
    assert outdated_roles(domain.url, [USER]) == [f"create the role {USER.name}"]
    create_roles(domain.url, [USER])
    assert outdated_roles(domain.url, [USER]) == []
    assert outdated_roles(domain.url, [replace(USER, reads=("users",))]) == [f"create the role {USER.name}"]
    assert outdated_roles(domain.url, [replace(USER, role_arn="arn:other")]) == [f"create the role {USER.name}"]
    del domain.roles[f"rolesmapping/{USER.name}"]
    assert outdated_roles(domain.url, [USER]) == [f"create the role {USER.name}"]


def test_requests_are_signed(domain: Domain) -> None:
    signer = OpenSearchSigner(
        "eu-central-1",
        lambda: Credentials(access_key="AKIA", secret_key="secret", token="token"),
        lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    create_roles(domain.url, [USER], auth=signer)
    outdated_roles(domain.url, [USER], auth=signer)
    for headers in domain.headers:
        assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA/20260101/eu-central-1/es/")
        assert headers["x-amz-security-token"] == "token"
        signed = re.findall("SignedHeaders=([^,]+)", headers["authorization"])[0].split(";")
        assert set(headers) - {"content-length"} == {*signed, "authorization"}


def test_refusal_of_the_domain_is_reported(domain: Domain) -> None:
    domain.status = 403
    with pytest.raises(ProvisioningError, match=r"role masscomm-prod-delivery: .*403, 'no more roles'"):
        create_roles(domain.url, [USER])


@pytest.mark.parametrize("status", [200, 400, 503])
def test_unacknowledged_index_is_an_error(domain: Domain, status: int) -> None:
    domain.status = status
    with pytest.raises(ProvisioningError, match="index "):
        create_indices(domain.url, "g1")


def test_each_deployed_client_of_the_directory_is_a_user() -> None:
    """A function's OpenSearch role has the indices of its package's profile."""
    entries = {entry.name: entry for entry in read_catalogue(generation="g1")}
    account = "arn:aws:iam::000000000000:role/"
    functions = {name: Deployed(variables={}, role_arn=f"{account}{name}") for name in entries}
    users = {
        user.name.removeprefix("masscomm-prod-"): user
        for user in directory_users(functions, "masscomm-prod", "/acme/masscomm-prod-eu-west-1-erasure")
    }
    asking = {name for name, entry in entries.items() if PROFILES[entry.package].requests}
    assert users.keys() == asking | {"erasure"}
    assert users["erasure"].role_arn == f"{account}acme/masscomm-prod-eu-west-1-erasure"
    assert users["erasure"].writes == ERASED_INDICES
    assert users["delivery-critical"].role_arn == f"{account}delivery-critical"
    assert users["delivery-critical"].reads == PROFILES["delivery"].indices
    assert users["cdc_consumer"].writes == PROFILES["cdc_consumer"].written
