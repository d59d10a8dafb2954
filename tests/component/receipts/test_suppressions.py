"""`masscomm suppressions` on the real index."""

import json
from collections.abc import Iterator
from uuid import uuid4

import pytest
from typer.testing import CliRunner

from cli import suppressions as commands
from cli.installation import Installation
from functions.receipts.sent_messages import OpenSearchSentMessages
from local.devstack.config import StackConfig
from local.devstack.provision import create_indices
from masscomm.domain.ids import address_id
from masscomm.domain.statuses import Reason
from masscomm.domain.suppressions import INDEX, Suppression
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from tests.support.servers.opensearch_client import TestClient

NOW = 1_700_000_000_000
AUDIT_LOG = InMemoryAuditLog()


@pytest.fixture
def client(opensearch: StackConfig, cluster: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    create_indices(cluster, "g1")
    monkeypatch.setattr(Installation, "here", lambda: Installation.local(opensearch))
    monkeypatch.setattr(Installation, "audit_log", lambda _: AUDIT_LOG)
    AUDIT_LOG.entries.clear()
    client = TestClient(cluster)
    yield client
    client.close()


def run(*arguments: str, status: int = 0) -> str:
    result = CliRunner().invoke(commands.app, list(arguments))
    assert result.exit_code == status, result.output
    return result.output


def listed(*arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("list", *arguments, "--json").splitlines()]


def test_a_suppression_is_listed_and_removed(client: TestClient) -> None:
    address, club = f"{uuid4()}@example.com", uuid4().int % 2**40
    suppression = Suppression(
        club_id=club, address=address, reason=Reason.COMPLAINED, at_ms=NOW, expires_ms=NOW + 86_400_000
    )
    assert OpenSearchSentMessages(client).suppress([suppression]) == [None]
    client.indices.refresh(index=INDEX)
    expected = {
        "club_id": club,
        "address_id": address_id(address),
        "reason": "complained",
        "at": "2023-11-14T22:13:20+00:00",
        "expires_at": "2023-11-15T22:13:20+00:00",
    }
    assert listed("--club", str(club)) == listed("--address", address.upper()) == [expected]
    run("remove", address, "--club", str(club + 1), status=1)
    assert listed("--address", address) == [expected]
    run("remove", address_id(address), "--club", str(club))
    assert listed("--address", address) == []
    run("remove", address, "--club", str(club), status=1)
    assert {(entry.action, entry.subject) for entry in AUDIT_LOG.entries} == {
        ("suppression.removed", address_id(address))
    }
    assert [(entry.club_id, entry.detail) for entry in AUDIT_LOG.entries] == [
        (club + 1, "0 removed"),
        (club, "1 removed"),
        (club, "0 removed"),
    ]
