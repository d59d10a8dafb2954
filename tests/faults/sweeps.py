"""An unreadable item in each store that a function sweeps: the items after it have their turn."""

import time
from contextlib import closing

import httpx

from masscomm.domain.preference_changes import INDEX
from masscomm.kafka import topics
from tests.support.contracts.preference_changes import UNREADABLE, changed
from tests.support.fault_stack.bench import Bench, tail
from tests.support.fault_stack.cell import Send
from tests.support.servers import dynamodb_table
from tests.support.servers.opensearch_client import TestClient
from tests.support.until import until

# The unreadable controls come before any other in their partition, and the unreadable changes are older than others.
_CONTROLS = ("!", "!7#a")
_DAY_MS = 86_400_000


def unreadable_items(bench: Bench, _: Send) -> None:
    """A cancelled send and a changed preference wait behind items that no version can read, and functions are killed
    between them.
    """
    client = dynamodb_table.dynamodb(bench.stack.config)
    keys = [{"due_bucket": {"S": "controlled"}, "id": {"S": id_}} for id_ in _CONTROLS]
    for key in keys:
        client.put_item(TableName="waiting", Item={**key, "changed_at_ms": {"S": "now"}})
    try:
        _cancelled_send_ends(bench)
        _changes_reach_the_monolith(bench)
    finally:
        for key in keys:
            client.delete_item(TableName="waiting", Key=key)


def _cancelled_send_ends(bench: Bench) -> None:
    users = bench.population.grow(40)
    sent = bench.emit(users, send_at=time.time_ns() // 1_000_000 + _DAY_MS)
    bench.await_requested(sent)
    url = f"{bench.stack.config.gateway_url}/v1/sends/{sent.send_id}/cancel"
    answer = httpx.post(url, headers={"x-api-key": bench.stack.config.api_key}, timeout=30, trust_env=False)
    assert answer.status_code == httpx.codes.ACCEPTED, answer.text
    bench.kill("scheduler")
    sent.fates = dict.fromkeys(sent.fates, frozenset({"cancelled"}))
    sent.calls = {}
    bench.settle()


def _changes_reach_the_monolith(bench: Bench) -> None:
    first, *others = bench.population.grow(len(UNREADABLE) + 1)
    old_ms = time.time_ns() // 1_000_000 - _DAY_MS
    opensearch = TestClient(bench.stack.config.opensearch_url)
    with closing(tail(bench, topics.PREFERENCE_CHANGE)) as records:
        for user_id, damage in zip(others, UNREADABLE.values(), strict=True):
            document = {**changed(user_id, old_ms).document, **damage}
            opensearch.index(index=INDEX, id=str(user_id), body=document, params={"refresh": "true"})
        bench.kill("preferences_handler")
        document = changed(first, old_ms + 1).document
        opensearch.index(index=INDEX, id=str(first), body=dict(document), params={"refresh": "true"})
        read: set[bytes | None] = set()

        def produced() -> bool:
            read.update(message.key() for message in records.poll())
            return str(first).encode() in read

        try:
            until("the change behind unreadable ones is produced", produced, every_s=0.1)
        finally:
            for user_id in others:
                opensearch.request("DELETE", f"{INDEX}/_doc/{user_id}", params={"refresh": "true"})
