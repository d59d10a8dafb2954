import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import httpx

from functions.delivery.publish import UNRECORDED
from local.emulators.sns_stand_in import Rule
from masscomm.domain.delays import PAUSED
from masscomm.domain.sends import SendKey
from masscomm.domain.statuses import Status
from masscomm.domain.time_limits import LOOK_UP_VALID_S
from masscomm.kafka import topics
from masscomm.stores.delayed_records.dynamodb import DynamoDbDelayStore
from tests.faults.moments import received
from tests.support.fault_stack.bench import Bench, tail
from tests.support.fault_stack.cell import Send
from tests.support.fault_stack.population import CATEGORIES, CLUB, DEVICES_A_USER
from tests.support.fault_stack.proxy import Hold, produce_to
from tests.support.servers import dynamodb_table
from tests.support.until import until

CHUNK_SIZE, CHUNKS = 50, 8
TIMEOUT_S = 12


def killed_between_chunks(bench: Bench, _: Send) -> None:
    """Kill send_handler when Kafka has a part of its chunks; the caller repeats the request with its key.

    The repeated request must wait for the killed attempt's time-out; then it completes the same send, and is replayed.
    """
    users = bench.shared[: CHUNK_SIZE * CHUNKS]
    key = f"{time.time_ns():x}"

    def post() -> httpx.Response:
        return httpx.post(
            f"{bench.stack.config.gateway_url}/v1/sends",
            json={"type": CATEGORIES["push"], "club_id": CLUB, "to_users": list(users), "channels": ["push"]},
            headers={"Idempotency-Key": key, "x-api-key": bench.stack.config.api_key},
            timeout=30,
            trust_env=False,
        )

    settings = {"send_handler": {"timeout_s": TIMEOUT_S, "environment": {"SEND_CHUNK_SIZE": str(CHUNK_SIZE)}}}
    with bench.stack.configured(settings), closing(tail(bench, topics.SEND_API)) as records:
        before = bench.records(topics.SEND_API)
        hold = bench.stack.kafka.fault(Hold(), when=produce_to(topics.SEND_API), after=1)
        with ThreadPoolExecutor(1) as caller, hold as held:
            first = caller.submit(post)
            held.await_hits()
            bench.kill("send_handler")
            held.discard()
            assert first.result().status_code == httpx.codes.BAD_GATEWAY
        until("a chunk is on Kafka", lambda: bench.records(topics.SEND_API) > before, every_s=0.05)
        produced = bench.records(topics.SEND_API) - before
        assert produced < CHUNKS, "all chunks are on Kafka"
        refused = post()
        assert (refused.status_code, 0 < int(refused.headers["Retry-After"]) <= TIMEOUT_S) == (409, True)

        answers: list[httpx.Response] = []

        def accepted() -> bool:
            answers.append(post())
            return answers[-1].status_code == httpx.codes.ACCEPTED

        until("the repetition is accepted", accepted, every_s=0.2)
        completed, replayed = answers[-1], post()
        assert "Idempotency-Replayed" not in completed.headers
        assert (replayed.json(), replayed.headers["Idempotency-Replayed"]) == (completed.json(), "true")
        assert replayed.json()["requested"] == len(users)
        sent = bench.expect_send(completed.json()["send_id"], users)
        found: list[tuple[str, int]] = []

        def read() -> bool:
            for message in records.poll():
                value = bench.codec.decode("SendRequested", message.value())
                found.append((value["send_id"], value["timestamp"]))
            return len(found) >= produced + CHUNKS

        until("the chunks of both attempts are on Kafka", read, every_s=0.05)
        assert len(found) == produced + CHUNKS
        assert len(set(found)) == 1, "the attempts have several sends"
        assert found[0][0] == sent.send_id
        bench.settle()


def cancelled_while_killed(bench: Bench, send: Send) -> None:
    """Cancel a send that is being published, then kill delivery: its redelivery must publish nothing.

    Recipients that were published to but not recorded end as cancelled; the bound of duplicates limits their number.
    """
    # Slow calls leave time to count and cancel the send; slower ones would time out, which adds lost answers.
    bench.stack.sns.answer(Rule(code="slow", delay_s=3.0))
    send()
    [sent] = bench.sends
    bench.await_requested(sent)
    until("a slice is recorded", lambda: len(received(bench)) > 2 * UNRECORDED, every_s=0.1)
    url = f"{bench.stack.config.gateway_url}/v1/sends/{sent.send_id}"
    key = {"x-api-key": bench.stack.config.api_key}
    first = httpx.post(f"{url}/cancel", headers=key, timeout=30, trust_env=False)
    assert first.status_code == httpx.codes.ACCEPTED, first.text
    bench.kill("delivery")
    published = received(bench)
    sent.fates = {user_id: fate | {Status.CANCELLED.value} for user_id, fate in sent.fates.items()}
    bench.stack.sns.clear()

    def ended() -> bool:
        body = httpx.get(url, headers=key, timeout=30, trust_env=False).raise_for_status().json()
        conservation = body["conservation"]
        assert conservation["ok"], body
        assert conservation["terminal"] + conservation["in_flight"] == body["requested"] == len(sent.fates), body
        return bool(body["complete"])

    until("the send has ended", ended, every_s=0.1)
    bench.settle()
    assert received(bench) == published, "a cancelled send was published"
    body = httpx.get(url, headers=key, timeout=30, trust_env=False).json()
    assert body["totals"]["cancelled"] > 0
    cancellation = body["cancellation"]
    assert cancellation["published_before"] + cancellation["published_since"] == body["totals"]["sent"] > 0
    again = httpx.post(f"{url}/cancel", headers=key, timeout=30, trust_env=False)
    assert (again.status_code, again.json()) == (first.status_code, first.json())


def cancelled_during_a_batch(bench: Bench, send: Send) -> None:
    """Cancel a send while its batches are being published: each environment of delivery publishes the group that is
    under way, and one that was looked up before the cancellation.

    A group takes as long as a look-up is valid, so that each group is looked up again.
    """
    bench.stack.sns.answer(Rule(code="slow", delay_s=LOOK_UP_VALID_S))
    send()
    [sent] = bench.sends
    bench.await_requested(sent)
    until("a slice is recorded", lambda: len(received(bench)) > 2 * UNRECORDED, every_s=0.1)
    cancelled = httpx.post(
        f"{bench.stack.config.gateway_url}/v1/sends/{sent.send_id}/cancel",
        headers={"x-api-key": bench.stack.config.api_key},
        timeout=30,
        trust_env=False,
    )
    assert cancelled.status_code == httpx.codes.ACCEPTED, cancelled.text
    published = len(received(bench))
    most = 2 * len(bench.processes("delivery")) * UNRECORDED * DEVICES_A_USER
    assert len(sent.pairs) - published > most, f"{published} calls were made before the cancellation"
    sent.fates = {user_id: fate | {Status.CANCELLED.value} for user_id, fate in sent.fates.items()}
    bench.settle()
    assert len(received(bench)) - published <= most, "more was published after the cancellation"


def paused_while_killed(bench: Bench, send: Send) -> None:
    """Pause a send that is being published, kill delivery, then resume the send and kill the scheduler: nothing is
    published during the pause, and every recipient afterwards.
    """
    bench.stack.sns.answer(Rule(code="slow", delay_s=3.0))
    send()
    [sent] = bench.sends
    bench.await_requested(sent)
    until("a slice is recorded", lambda: len(received(bench)) > 2 * UNRECORDED, every_s=0.1)
    url = f"{bench.stack.config.gateway_url}/v1/sends/{sent.send_id}"
    key = {"x-api-key": bench.stack.config.api_key}
    paused = httpx.post(f"{url}/pause", headers=key, timeout=30, trust_env=False)
    assert paused.status_code == httpx.codes.ACCEPTED, paused.text
    bench.kill("delivery")
    published = received(bench)
    store = DynamoDbDelayStore(client=dynamodb_table.dynamodb(bench.stack.config))
    held = SendKey(CLUB, sent.send_id)
    until("its records are held", lambda: any(store.of_send(held, PAUSED)), every_s=0.2)
    until("the chain's topics are consumed", bench.at_rest, every_s=0.2)
    assert received(bench) == published, "a paused send was published"
    bench.stack.sns.clear()
    resumed = httpx.post(f"{url}/resume", headers=key, timeout=30, trust_env=False)
    assert resumed.status_code == httpx.codes.ACCEPTED, resumed.text
    bench.kill("scheduler")
    bench.settle()
    assert list(store.of_send(held)) == []


def controlled_without_counts(bench: Bench, send: Send) -> None:
    """Pause, resume and cancel a send while neither its counts can be read nor the metrics job runs.

    Each request succeeds, and says that the counts are unknown. Once both are back, the send ends as cancelled.
    """
    for server in ("spark", "postgres"):
        bench.stack.stack.kill(server)
    bench.stack.sns.answer(Rule(code="slow", delay_s=3.0))
    send()
    [sent] = bench.sends
    sent.fates = {user_id: fate | {Status.CANCELLED.value} for user_id, fate in sent.fates.items()}
    url, key = f"{bench.stack.config.gateway_url}/v1/sends", {"x-api-key": bench.stack.config.api_key}
    with httpx.Client(headers=key, timeout=30, trust_env=False) as client:
        one = f"{url}/{sent.send_id}"
        until("the send is registered", lambda: client.get(one).status_code == httpx.codes.OK, every_s=0.1)
        found = client.get(one).json()
        assert (found["counts_known"], found["totals"]) == (False, None), found
        for action in ("pause", "resume", "cancel"):
            answer = client.post(f"{one}/{action}")
            assert answer.status_code == httpx.codes.ACCEPTED, (action, answer.text)
            assert answer.json().get("published_before") is None
        assert client.get(one).json()["status"] == "cancelling"
        listed = client.get(url, params={"club_id": str(CLUB)}).json()
        assert listed["counts_known"] is False
        assert sent.send_id in {row["send_id"] for row in listed["rows"]}
        bench.stack.sns.clear()
        for server in ("postgres", "spark"):
            bench.stack.stack.restart(server)
        until("the send has ended", lambda: bool(client.get(one).json()["complete"]), every_s=0.1)
    bench.settle()
