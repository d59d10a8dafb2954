"""Each deployed function has an OpenSearch role with its indices and actions, and an IAM role as backend role."""

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from functions.catalogue import read_catalogue
from infra.cdk.profiles import ERASED_INDICES, PROFILES
from infra.provision import Deployed, directory_users
from masscomm.aws.authentication import OpenSearchSigner
from masscomm.aws.signature import Credentials
from ops.provisioning import ProvisioningError
from ops.provisioning.directory import DirectoryUser, create_indices, create_roles, outdated_roles


class Domain:
    """A security API that stores roles and mappings."""

    def __init__(self) -> None:
        self.roles: dict[str, dict[str, Any]] = {}
        self.headers: list[dict[str, str]] = []
        self.status = 200
        domain = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                domain.roles[self.path.removeprefix("/_plugins/_security/api/")] = json.loads(body)
                domain.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(domain.status)
                self.send_header("Content-Type", "application/json" if domain.status == 200 else "text/plain")
                self.end_headers()
                self.wfile.write(b"{}" if domain.status == 200 else b"no more roles")

            def do_GET(self) -> None:
                path = self.path.removeprefix("/_plugins/_security/api/")
                role = domain.roles.get(path)
                # The domain adds members with defaults.
                found = {"status": "NOT_FOUND"} if role is None else {path.partition("/")[2]: role | {"hidden": False}}
                domain.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.send_response(404 if role is None else 200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(found).encode())

            def log_message(self, *_: object) -> None:
                """Do not log requests to standard error."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def domain() -> Iterator[Domain]:
    made = Domain()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


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
    users = {user.name.removeprefix("masscomm-prod-"): user for user in directory_users(functions, "masscomm-prod")}
    asking = {name for name, entry in entries.items() if PROFILES[entry.package].requests}
    assert users.keys() == asking | {"erasure"}
    assert users["erasure"].role_arn == f"{account}masscomm-prod-erasure"
    assert users["erasure"].writes == ERASED_INDICES
    assert users["delivery-critical"].role_arn == f"{account}delivery-critical"
    assert users["delivery-critical"].reads == PROFILES["delivery"].indices
    assert users["cdc_consumer"].writes == PROFILES["cdc_consumer"].written
