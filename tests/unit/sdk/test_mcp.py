"""The server for agents, over its protocol, against the API in memory: in this process, or as an agent starts it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from functions.send_handler import handler as send_handler
from masscomm.domain.audit import Action
from masscomm.domain.records import SendRequested
from masscomm.stores.audit_log.in_memory import InMemoryAuditLog
from masscomm_client import mcp_tools
from tests.support.harness import rest_api
from tests.support.harness.agent import agent, agent_in_memory
from tests.support.harness.chain import Chain
from tests.support.inputs.api_gateway_events import EVERY_SCOPE
from tests.support.servers.answering_server import answering

SEND_ID = "3f5e7b0c-6d0e-4a52-9d5c-0d3c3a1f7f39"
SEND = {"type": "news", "club_id": 1, "to_users": [42, 42]}
# Keys with the scopes of an agent.
READER = {"scopes": "read users:read", "principalId": "reader", "club_ids": "1"}
COUNTER = {"scopes": "read", "principalId": "counter", "club_ids": "1"}
SENDER = EVERY_SCOPE | {"principalId": "an agent's key", "club_ids": "1"}
FOREIGN = {"scopes": "read users:read", "principalId": "foreign", "club_ids": "2"}
KEYS = {"mc_reader": READER, "mc_counter": COUNTER, "mc_sender": SENDER, "mc_foreign": FOREIGN}


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Chain:
    return rest_api.build(monkeypatch)


@pytest.fixture
def url(chain: Chain) -> Iterator[str]:
    with rest_api.serving(contexts=KEYS) as url:
        yield url


async def test_every_tool_works_against_the_api(url: str) -> None:
    query = {"granularity": "hour", "start": "2026-11-21T12:00:00Z", "end": "2026-11-21T13:00:00Z"}
    async with agent_in_memory(url, key="mc_sender") as asked:
        tools = (await asked.client.list_tools()).tools
        results = {
            "find_sends": await asked.ask("find_sends", search="news", limit=1),
            "read_send": await asked.ask("read_send", send_id=SEND_ID),
            "list_recipients": await asked.ask("list_recipients", send_id=SEND_ID, status=["sent"]),
            "explain_user": await asked.ask("explain_user", send_id=SEND_ID, user_id=42),
            "read_user": await asked.ask("read_user", user_id=42),
            "check_send": await asked.ask("check_send", send=SEND),
            "count_audience": await asked.ask("count_audience", club_id=1, audience={"all_users": True}),
            "list_templates": await asked.ask("list_templates", channel=["push"]),
            "read_metrics": await asked.ask("read_metrics", **query),
            "read_overview": await asked.ask("read_overview"),
        }
    assert set(results) == {tool.name for tool in tools}
    assert [row["send_id"] for row in results["find_sends"]["rows"]] == [SEND_ID]
    assert results["read_send"]["totals"]["sent"] == 2
    assert [row["user_id"] for row in results["list_recipients"]["rows"]] == [42]
    assert results["read_user"]["user"]["first_name"] == "Ada"
    assert [row["send_id"] for row in results["read_user"]["notifications"]["rows"]] == [SEND_ID]
    assert (results["check_send"]["dry_run"], results["check_send"]["requested"]) == (True, 1)
    assert results["count_audience"]["users"] == 1
    assert [row["type"] for row in results["list_templates"]["rows"]] == ["match_reminder"]
    assert [row["count_total"] for row in results["read_metrics"]["rows"]] == [2]
    assert results["read_overview"]["today"] is not None


async def test_a_recipient_is_explained_by_statuses_and_settings(url: str) -> None:
    async with agent_in_memory(url, key="mc_reader") as asked:
        found = await asked.ask("explain_user", send_id=SEND_ID, user_id=42)
    (notification,) = found["notifications"]
    assert (notification["channel"], notification["status"]) == ("push", "sent")
    assert notification["decision"] == "The provider accepted the message for at least one device or address."
    assert [step["status"] for step in notification["timeline"]] == ["sent"]
    assert found["preferences"]["user_id"] == found["user"]["user_id"] == 42
    assert found["problems"] == []


async def test_a_user_outside_the_send_is_explained_in_words(url: str) -> None:
    async with agent_in_memory(url, key="mc_reader") as asked:
        found = await asked.ask("explain_user", send_id=SEND_ID, user_id=43)
    assert (found["notifications"], found["user"]) == ([], None)
    assert {problem.partition(":")[0] for problem in found["problems"]} == {"push", "user", "preferences"}
    assert all("404" in problem for problem in found["problems"])


async def test_the_scopes_and_tenants_of_the_key_hold(url: str) -> None:
    async with agent_in_memory(url, key="mc_counter", max_recipients=1) as asked:
        found = await asked.ask("explain_user", send_id=SEND_ID, user_id=42)
        assert (found["notifications"], found["user"], found["preferences"]) == ([], None, None)
        assert all("users:read" in problem for problem in found["problems"])
        assert "403" in await asked.text("send", fails=True, send=SEND, idempotency_key="one")
    async with agent_in_memory(url, key="mc_foreign") as asked:
        assert "404" in await asked.text("explain_user", fails=True, send_id=SEND_ID, user_id=42)
        assert (await asked.ask("find_sends"))["rows"] == []


@pytest.mark.kills(guard="mcp.send_only_if_allowed")
async def test_without_the_flag_every_tool_only_reads(url: str, chain: Chain) -> None:
    async with agent(url, key="mc_sender") as asked:
        tools = (await asked.client.list_tools()).tools
        assert await asked.text("send", fails=True, send=SEND, idempotency_key="one")
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    assert all(mcp_tools.UNTRUSTED in (tool.description or "") for tool in tools)
    assert chain.producer.produced == []


async def test_a_repeated_send_is_one_marked_and_audited_send(url: str, chain: Chain) -> None:
    async with agent(url, "--allow-send", key="mc_sender") as asked:
        tools = {tool.name: tool for tool in (await asked.client.list_tools()).tools}
        sent = [await asked.ask("send", send=SEND | {"reference": "ticket 7"}, idempotency_key="one") for _ in range(2)]
    assert sent[0]["send_id"] == sent[1]["send_id"]
    assert "at most 100 recipients" in (tools["send"].description or "")
    (value,) = chain.values("send.api")
    assert SendRequested.from_avro(chain.codec.decode("SendRequested", value)).reference == "mcp ticket 7"
    audit_log = send_handler.bootstrap().requests.audit_log
    assert isinstance(audit_log, InMemoryAuditLog)
    (entry,) = audit_log.entries
    assert (entry.principal, entry.action) == ("an agent's key", Action.SEND_REQUESTED)
    assert entry.subject == sent[0]["send_id"]


@pytest.mark.kills(guard="mcp.max_recipients")
async def test_sends_end_at_the_limit_of_the_server(url: str, chain: Chain) -> None:
    """A refused send does not count; users that are named twice count once."""
    async with agent(url, "--allow-send", "--max-recipients", "3", key="mc_sender") as asked:
        refused = await asked.text("send", fails=True, send=SEND | {"to_users": [1, 2, 3, 4]}, idempotency_key="many")
        assert "4 recipients are too many: this server sends to at most 3" in refused
        invalid = SEND | {"to_users": [1, 2], "send_at": "tomorrow"}
        assert "send_at" in await asked.text("send", fails=True, send=invalid, idempotency_key="invalid")
        assert chain.producer.produced == []
        await asked.ask("send", send=SEND | {"to_users": [1, 2, 2]}, idempotency_key="two")
        assert "has sent to 2" in await asked.text(
            "send", fails=True, send=SEND | {"to_users": [1, 2]}, idempotency_key="again"
        )
        await asked.ask("send", send=SEND | {"to_users": [1]}, idempotency_key="last")
    assert len(chain.producer.produced) == 2


async def test_refusals_name_the_field_and_unknown_fields(url: str) -> None:
    async with agent_in_memory(url, key="mc_sender") as asked:
        assert "to_users[0]" in await asked.text("check_send", fails=True, send=SEND | {"to_users": [-(2**63) - 1]})
        assert "sendat" in await asked.text("check_send", fails=True, send=SEND | {"sendat": "now"})
        assert "status" in await asked.text("find_sends", fails=True, status=["asleep"])
        assert "404" in await asked.text("read_send", fails=True, send_id="00000000-0000-4000-8000-000000000000")


LONG: Mapping[str, Any] = {"rows": [{"title": "x" * 2_000}] * 101, "next_cursor": None}


async def test_results_are_bounded_and_never_have_the_key(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with answering(lambda _: None) as server:
        async with agent(server.url, key="mc_secret", log=log) as asked:
            server.answers = [(200, json.dumps(LONG).encode())]
            few = await asked.ask("list_templates", limit=1)
            assert (len(few["rows"]), few["more"]) == (1, True)
            assert few["rows"][0]["title"].endswith("x… (1,000 further characters)")
            assert "more than 40,000" in await asked.text("list_templates", fails=True, limit=100)
            server.answers = [(401, b'{"detail": "the key is unknown"}')]
            assert "401: the key is unknown" in await asked.text("read_send", fails=True, send_id=SEND_ID)
            server.answers = [(200, b"[]")]
            await asked.text("find_sends", fails=True)
        async with agent("http://127.0.0.1:1", key="mc_secret", log=log) as asked_nobody:
            assert "does not answer" in await asked_nobody.text("read_send", fails=True, send_id=SEND_ID)
    assert "mc_secret" not in "".join([*asked.texts, *asked_nobody.texts, log.read_text()])


@pytest.mark.parametrize(
    ("variables", "missing"),
    [({}, "MASSCOMM_API_URL and MASSCOMM_API_KEY"), ({"MASSCOMM_API_URL": "http://127.0.0.1:1"}, "MASSCOMM_API_KEY")],
)
def test_a_missing_variable_is_named(variables: dict[str, str], missing: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "masscomm_client.mcp"],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, f"set {missing} in the environment" in done.stderr) == (2, True)
