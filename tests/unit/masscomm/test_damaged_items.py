"""A list has all items that can be read, and a damaged item is logged and counted."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from masscomm.clock import FixedClock
from masscomm.domain.sends import Send, SendKey, Source
from masscomm.domain.webhook_sources import SourceKey
from masscomm.domain.webhooks import EndpointKey
from masscomm.observability import metrics
from masscomm.stores.api_keys.dynamodb import ApiKeys
from masscomm.stores.api_keys.port import every_key
from masscomm.stores.audit_log.dynamodb import DynamoDbAuditLog
from masscomm.stores.audit_log.port import AuditQuery
from masscomm.stores.saved_audiences.dynamodb import DynamoDbSavedAudiences
from masscomm.stores.schedules.dynamodb import DynamoDbSchedules
from masscomm.stores.sends.dynamodb import DynamoDbSends
from masscomm.stores.webhook_endpoints.dynamodb import DynamoDbWebhookEndpoints
from masscomm.stores.webhook_sources.dynamodb import DynamoDbWebhookSources
from tests.support.contracts.api_keys import KEY
from tests.support.contracts.audit_log import NOW_MS, entry
from tests.support.contracts.event_stores import SHOP
from tests.support.contracts.saved_audiences import GERMANS
from tests.support.contracts.schedules import WEEKLY
from tests.support.contracts.webhook_stores import endpoint
from tests.support.servers.dynamodb_table import new_table

NAMES = ("a", "b", "c", "d")


class List:
    """A store with the items of four names, in the order of the list."""

    def __init__(self, client: Any, table: str) -> None:
        self.client, self.table = client, table

    def damage(self, attribute: str, *, of: str) -> None:
        """Replace an attribute of the item that contains a text by one of another type."""
        (item,) = [
            each for each in self.client.scan(TableName=self.table)["Items"] if of in json.dumps(each, default=str)
        ]
        self.client.put_item(TableName=self.table, Item={**item, attribute: {"BOOL": True}})


@pytest.fixture
def api_keys(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "api_keys")
    keys = ApiKeys(moto_dynamodb, table, new_table(moto_dynamodb, "idempotency_keys"))
    for number, name in enumerate(reversed(NAMES)):
        keys.put(replace(KEY, name=f"name-{name}", digest=name * 64, created_at=100 + number))
    return List(moto_dynamodb, table), lambda: [key.digest[0] for key in every_key(keys, a_page=2)]


@pytest.fixture
def audit_log(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "audit_log")
    log = DynamoDbAuditLog(table=table, client=moto_dynamodb)
    for number, name in enumerate(reversed(NAMES)):
        log.record(entry(NOW_MS + number, subject=f"name-{name}"))

    def read() -> list[str]:
        found: list[str] = []
        before, more = None, True
        while more:
            page = log.page(AuditQuery(club_id=7, start_ms=0, end_ms=NOW_MS * 2, limit=2, before=before))
            found += [each.subject[-1] for each in page.entries]
            before, more = (page.entries[-1].at_ms, page.entries[-1].id), page.more
        return found

    return List(moto_dynamodb, table), read


@pytest.fixture
def sends(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "sends")
    register = DynamoDbSends(table=table, client=moto_dynamodb, clock=FixedClock(NOW_MS))
    for number, name in enumerate(reversed(NAMES)):
        key = SendKey(7, f"name-{name}")
        register.register([Send(key=key, source=Source.REST, requested_at_ms=NOW_MS + number, is_to_audience=True)])

    def read() -> list[str]:
        return [each.key.send_id[-1] for each in register.listed(7, start_ms=NOW_MS, before_ms=NOW_MS + 9)]

    return List(moto_dynamodb, table), read


@pytest.fixture
def changed_sends(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "sends")
    register = DynamoDbSends(table=table, client=moto_dynamodb, clock=FixedClock(NOW_MS))
    for name in NAMES:
        register.announce(SendKey(7, f"name-{name}"))
    return List(moto_dynamodb, table), lambda: sorted(each.send.send_id[-1] for each in register.announced())


@pytest.fixture
def saved_audiences(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "categories")
    store = DynamoDbSavedAudiences(table=table, client=moto_dynamodb)
    for name in NAMES:
        store.put(replace(GERMANS, name=f"name-{name}"))
    return List(moto_dynamodb, table), lambda: [each.name[-1] for each in store.of_club(7)]


@pytest.fixture
def schedules(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "categories")
    store = DynamoDbSchedules(table=table, client=moto_dynamodb)
    for name in NAMES:
        store.put(replace(WEEKLY, name=f"name-{name}"), None)
    return List(moto_dynamodb, table), lambda: [each.name[-1] for each in store.of_club(7)]


@pytest.fixture
def webhook_endpoints(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "webhook_endpoints")
    store = DynamoDbWebhookEndpoints(table=table, client=moto_dynamodb)
    for name in NAMES:
        store.create(endpoint(EndpointKey(7, f"name-{name}")))
    return List(moto_dynamodb, table), lambda: [each.key.id[-1] for each in store.of_club(7)]


@pytest.fixture
def webhook_sources(moto_dynamodb: Any) -> tuple[List, Callable[[], list[str]]]:
    table = new_table(moto_dynamodb, "webhook_sources")
    store = DynamoDbWebhookSources(table=table, client=moto_dynamodb)
    for name in NAMES:
        store.put(replace(SHOP, key=SourceKey(7, f"name-{name}")))
    return List(moto_dynamodb, table), lambda: [each.key.id[-1] for each in store.of_club(7)]


@pytest.mark.guarantee("lists.damaged_item_hides_no_other")
@pytest.mark.kills(guard="stored.unreadable_item")
@pytest.mark.parametrize("name", [NAMES[0], NAMES[-1]])
@pytest.mark.parametrize(
    ("store", "attribute"),
    [
        ("api_keys", "name"),
        ("api_keys", "clubs"),
        ("audit_log", "subject"),
        ("sends", "requested_at_ms"),
        ("changed_sends", "changed_at_ms"),
        ("saved_audiences", "definition"),
        ("schedules", "revision"),
        ("webhook_endpoints", "created_at_ms"),
        ("webhook_sources", "mapping"),
    ],
)
def test_damaged_item_hides_no_other(
    store: str, attribute: str, name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    items, read = request.getfixturevalue(store)
    assert read() == list(NAMES)
    items.damage(attribute, of=f"name-{name}")
    metrics.taken()
    assert read() == [each for each in NAMES if each != name]
    assert metrics.taken()[0]["UnreadableItems"] >= 1  # type: ignore[operator]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {(line["message"], line["store"].split("/")[0]) for line in lines} == {
        ("a stored item cannot be read", items.table)
    }
