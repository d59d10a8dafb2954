"""What is done to the stack while a cell's send is on its way."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from urllib.parse import quote_plus

import httpx
from confluent_kafka import Message
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

from devstack.demo.records import TopicReader
from devstack.sns_stand_in import Rule
from functions.delivery.deliver import SLICE_SIZE
from masscomm import topics
from masscomm.ids import address_id
from tests.chain import entry, event
from tests.faults.bench import CHAIN, Bench, Beside, tail
from tests.faults.cell import FaultOf, Send
from tests.faults.population import address
from tests.faults.proxy import Answer, Cut, Delay, DropAnswer, Edit, Hold, HoldAnswer, Request, produce_to
from tests.faults.waiting import until

type Moment = Literal["before", "middle", "after"]

LEDGER = "delivery_ledger"
# Where delivery's records stand, of sends to many and to few.
DELIVERY = tuple(topic.name for topic in topics.chain_topics() if topic.name.startswith(topics.DELIVERY))
AMZ_JSON = "application/x-amz-json-1.0"
HALF_A_SLICE = SLICE_SIZE // 2
WORKERS = 16  # calls of delivery at once
# Some slices are recorded, half of the next is published.
INSIDE_A_SLICE = 3 * SLICE_SIZE + HALF_A_SLICE


def none(bench: Bench, send: Send) -> None:
    """Nothing."""
    send()


# --- processes --------------------------------------------------------------------------------------------------------


def killed(function: str, topic: str, moment: Moment) -> FaultOf:
    """kill -9 before its records reach the broker, when a part of them has, or when all have and it does not know."""

    def fault(bench: Bench, send: Send) -> None:
        action = HoldAnswer() if moment == "after" else Hold()
        with bench.stack.kafka.fault(action, when=produce_to(topic), after=int(moment == "middle")) as held:
            send()
            held.await_hits()
            bench.kill(function)
            held.discard()

    return fault


def killed_publishing(bench: Bench, send: Send) -> None:
    """kill -9 of delivery when some slices are recorded, half of the next is published, and calls are unanswered."""
    bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
    send()
    bench.await_held(1)
    bench.kill("delivery")


def every_function_killed(bench: Bench, send: Send) -> None:
    """kill -9 of every function's process, one after another, spread over the send."""
    names = sorted(bench.functions(), key=lambda name: (name not in CHAIN, name))
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.1))
    send()
    [sent] = bench.sends
    total = len(sent.pairs)
    for number, name in enumerate(names):
        wanted = number * total // (2 * len(names))
        until("a part is published", lambda wanted=wanted: len(_received(bench)) >= wanted)  # type: ignore[misc]
        bench.kill(name)


def timed_out(bench: Bench, send: Send) -> None:
    """Delivery stops in the middle of publishing, until the host ends it for taking too long."""
    with bench.stack.configured({"delivery": {"timeout_s": 20}}):
        bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
        send()
        bench.await_held(1)
        [process] = bench.processes("delivery")
        bench.freeze("delivery")
        bench.stack.sns.clear()
        until("the host ends it", lambda: not process.is_running())
        bench.settle()


def twice(bench: Bench, send: Send) -> None:
    """A second environment of delivery is invoked with the record while the first publishes it."""
    with _beside(bench) as (beside, records):
        bench.stack.sns.answer(Rule(code="slow", delay_s=0.05))
        send()
        beside.invoke(_event_of(records))
        answer = beside.answer()
        assert answer == {"batchItemFailures": []}, answer


def asleep(bench: Bench, send: Send) -> None:
    """Delivery is stopped in the middle of publishing for longer than its lease, while another finishes the record."""
    with _beside(bench) as (beside, records):
        bench.stack.sns.answer(Rule(code="slow", delay_s=0.05))
        send()
        until("some slices are published", lambda: len(_received(bench)) > INSIDE_A_SLICE, every_s=0.005)
        bench.freeze("delivery")
        bench.stack.sns.clear()
        beside.invoke(_event_of(records))
        answer = beside.answer()
        assert answer == {"batchItemFailures": []}, answer
        published = len(bench.stack.sns.received())
        bench.thaw("delivery")
        bench.settle()
        begun = len(bench.stack.sns.received()) - published
        assert begun <= WORKERS, f"{begun} calls for a record that is another's"


@contextmanager
def _beside(bench: Bench) -> Iterator[tuple[Beside, TopicReader]]:
    """A warm environment of delivery, and the records of delivery from now on."""
    beside = bench.beside("delivery")
    records = tail(bench, topics.DELIVERY)
    try:
        yield beside, records
    finally:
        records.close()
        beside.close()


def _event_of(records: TopicReader) -> dict[str, Any]:
    """An event of the next record or records."""
    found: list[Message] = []

    def there() -> bool:
        found.extend(records.poll())
        return bool(found)

    until("a record of delivery", there, every_s=0.005)
    return event(
        *(
            entry(
                message.value(),
                topic=message.topic() or "",
                partition=message.partition() or 0,
                offset=message.offset() or 0,
                timestamp=message.timestamp()[1],
                key=message.key(),
            )
            for message in found
        )
    )


def opt_out_between(bench: Bench, send: Send) -> None:
    """Delivery is killed inside a record; before it comes again, one who was sent to and one who was not opt out."""
    bench.stack.sns.answer(Rule(code="hold", after=INSIDE_A_SLICE))
    send()
    bench.await_held(1)
    with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=_path("/devices/_search")) as refused:
        bench.kill("delivery")
        bench.stack.sns.clear()
        refused.await_hits()
        [sent] = bench.sends
        reached = {notification for notification, _ in _received(bench)}
        able = [user_id for user_id in sorted(sent.calls) if len(sent.calls[user_id]) == 1]
        first = able[0]
        later = next(user_id for user_id in reversed(able) if sent.calls[user_id][0][0] not in reached)
        assert sent.calls[first][0][0] in reached
        bench.population.opt_out([first, later])
        sent.fates[later] = frozenset({"opted_out"})


def newcomer(bench: Bench, _: Send) -> None:
    """People are created and sent to while change data capture is down: not to know them is no reason to drop them."""
    bench.stack.stack.kill("connect")
    users = bench.population.insert(10)
    bench.emit(users)
    with bench.stack.opensearch.fault(Delay(0), when=_path("/_mget")) as asked:
        asked.await_hits(3)
    bench.stack.stack.restart("connect")


def on_its_way(bench: Bench, send: Send) -> None:
    """Send, with a provider that takes its time, until it took something."""
    bench.stack.sns.answer(Rule(code="slow", delay_s=0.1))
    send()
    until("the send is on its way", lambda: bench.stack.sns.counts().accepted > 0 and bool(_received(bench)))


def server_killed(name: str) -> FaultOf:
    """kill -9 of a server while the send is on its way, and its start on the data it had."""

    def fault(bench: Bench, send: Send) -> None:
        on_its_way(bench, send)
        bench.stack.stack.kill(name)
        bench.killed += name == "lambda_host"  # and every function with it
        bench.stack.stack.restart(name)

    return fault


# --- Kafka ------------------------------------------------------------------------------------------------------------


def acknowledgement_lost(topic: str) -> FaultOf:
    """The broker has the records; the connection is cut before it can say so."""

    def fault(bench: Bench, send: Send) -> None:
        with bench.stack.kafka.fault(DropAnswer(), when=produce_to(topic), times=2) as lost:
            send()
            lost.await_hits()
            bench.settle()

    return fault


def kafka_cut(bench: Bench, send: Send) -> None:
    """Every connection of the functions and their pollers is cut while they produce."""
    with bench.stack.kafka.fault(Cut(), when=produce_to("delivery"), times=1) as cut:
        send()
        cut.await_hits()
        bench.stack.kafka.cut()


def unacknowledged(topic: str) -> FaultOf:
    """No record of a topic gets through for longer than the producer waits."""

    def fault(bench: Bench, send: Send) -> None:
        before = bench.failures()
        with bench.stack.kafka.fault(Cut(), when=produce_to(topic)):
            send()
            until("the records come again", lambda: bench.failures() > before, every_s=0.1)

    return fault


def broker_killed(bench: Bench, send: Send) -> None:
    """The one broker is killed while delivery publishes, and starts again."""
    server_killed("kafka")(bench, send)


# --- OpenSearch -------------------------------------------------------------------------------------------------------


def _path(*parts: str) -> Callable[[Request], bool]:
    return lambda request: any(part in request.what for part in parts)


_LOOK_UPS = _path("/_mget", "/_search")


def opensearch_answers(status: int) -> FaultOf:
    """So many look-ups in a row are refused."""
    kind = {429: "rejected_execution_exception"}.get(status, "cluster_block_exception")
    body = {
        "error": {"root_cause": [{"type": kind, "reason": "fault"}], "type": kind, "reason": "fault"},
        "status": status,
    }

    def fault(bench: Bench, send: Send) -> None:
        refusal = Answer(status=status, body=json.dumps(body).encode())
        with bench.stack.opensearch.fault(refusal, when=_LOOK_UPS, times=12) as refused:
            send()
            refused.await_hits(12)

    return fault


def opensearch_times_out(bench: Bench, send: Send) -> None:
    """One look-up is answered later than the client waits."""
    with bench.stack.opensearch.fault(Delay(11), when=_LOOK_UPS, times=1) as late:
        send()
        late.await_hits()
        bench.settle()


def partial_mget(bench: Bench, send: Send) -> None:
    """Every second document of a look-up by id is an error, for a while."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["docs"] = [
            {"_index": doc["_index"], "_id": doc["_id"], "error": {"type": "no_shard_available_action_exception"}}
            if number % 2
            else doc
            for number, doc in enumerate(answer["docs"])
        ]
        return json.dumps(answer).encode()

    with bench.stack.opensearch.fault(Edit(edit), when=_bigger_mget, times=6) as edited:
        send()
        edited.await_hits(6)


def _asks_for_user(user_id: int) -> Callable[[Request], bool]:
    """The builder's look-up of somebody: it asks for their row and for no settings."""
    name = f'"{user_id}"'.encode()

    def holds(request: Request) -> bool:
        return "/_mget" in request.what and name in request.body and b"user_settings" not in request.body

    return holds


def _bigger_mget(request: Request) -> bool:
    # Not the small ones, by which the position of change data capture is read.
    return "/_mget" in request.what and len(request.body) > 1_000


def partial_search(bench: Bench, send: Send) -> None:
    """A shard did not answer a search of devices: half of the hits, for a while."""

    def edit(body: bytes) -> bytes:
        answer = json.loads(body)
        answer["_shards"] |= {"failed": 1}
        answer["hits"]["hits"] = answer["hits"]["hits"][::2]
        return json.dumps(answer).encode()

    with bench.stack.opensearch.fault(Edit(edit), when=_path("/devices/_search"), times=4) as edited:
        send()
        edited.await_hits(4)


def handed_over_without_payload(bench: Bench, send: Send) -> None:
    """The same, and the records are too large to be handed over: they are read again from their own topic."""
    with _limited(bench, topics.ON_FAILURE, 2_000):
        opensearch_outage(bench, send)


@contextmanager
def _limited(bench: Bench, name: str, size: int) -> Iterator[None]:
    """A topic takes no records of more bytes than that for a while."""
    [usual] = [topic.max_message_bytes for topic in topics.chain_topics() if topic.name == name]

    def limit(value: int) -> None:
        entry = ConfigEntry("max.message.bytes", str(value), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[entry])
        [done] = bench.admin.incremental_alter_configs([resource]).values()
        done.result()

    limit(size)
    try:
        yield
    finally:
        limit(usual)


def opensearch_outage(bench: Bench, send: Send) -> None:
    """Nothing is answered until the mapping has given the records up."""
    before = bench.ends(topics.ON_FAILURE)
    with bench.stack.opensearch.down():
        send()
        until("the mapping gives up", lambda: bench.ends(topics.ON_FAILURE) != before, 180, every_s=0.2)


# --- DynamoDB ---------------------------------------------------------------------------------------------------------


def _dynamodb(table: str, *operations: str) -> Callable[[Request], bool]:
    name = f'"{table}"'.encode()
    return lambda request: request.target.rpartition(".")[2] in operations and name in request.body


def dynamodb_throttles(bench: Bench, send: Send) -> None:
    """Leases and slices are refused for their rate, for a while."""
    body = {
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "The level of configured provisioned throughput for the table was exceeded.",
    }
    refusal = Answer(status=400, body=json.dumps(body).encode(), kind=AMZ_JSON)
    with bench.stack.dynamodb.fault(refusal, when=_dynamodb(LEDGER, "UpdateItem", "PutItem"), times=10) as refused:
        send()
        refused.await_hits(10)


def dynamodb_answers_lost(bench: Bench, send: Send) -> None:
    """The lease and two slices are written and nobody hears of it: the second try finds its own write."""
    with ExitStack() as faults:
        lost = [
            faults.enter_context(
                bench.stack.dynamodb.fault(DropAnswer(), when=_dynamodb(LEDGER, operation), times=times)
            )
            for operation, times in (("UpdateItem", 1), ("PutItem", 2))
        ]
        send()
        for each in lost:
            each.await_hits(each.times or 1)


def dynamodb_down(bench: Bench, send: Send) -> None:
    """No connection is taken from before the first lease until it was asked for a few times."""
    with bench.stack.dynamodb.fault(Cut(), when=_dynamodb(LEDGER, "UpdateItem", "PutItem")) as cut:
        send()
        cut.await_hits(6)


def dynamodb_down_while_publishing(bench: Bench, send: Send) -> None:
    """A slice is published and cannot be recorded for a while."""
    with bench.stack.dynamodb.fault(Cut(), when=_dynamodb(LEDGER, "PutItem")) as cut:
        send()
        cut.await_hits(6)


def dynamodb_down_while_deciding(bench: Bench, send: Send) -> None:
    """First decisions cannot be recorded for a while."""
    with bench.stack.dynamodb.fault(Cut(), when=_dynamodb("decisions", "PutItem")) as cut:
        send()
        cut.await_hits(6)


def first_decision_stands(bench: Bench, send: Send) -> None:
    """The checker is killed when its records are out and its outcome is not; then one who was passed on opts out."""
    with bench.stack.kafka.fault(HoldAnswer(), when=produce_to("build")) as held:
        send()
        held.await_hits()
        with bench.stack.opensearch.fault(Answer(status=503, body=b"{}"), when=_bigger_mget) as refused:
            bench.kill("preference_checker")
            held.discard()
            refused.await_hits()
            [sent] = bench.sends
            bench.population.opt_out([min(sent.calls)])
    # Delivery may still honour it; that is the one other end there may be.
    sent.fates[min(sent.calls)] = frozenset({"sent", "opted_out"})


# --- SNS --------------------------------------------------------------------------------------------------------------


def sns_answers(code: str, *, share: float = 1.0, times: int | None = None) -> FaultOf:
    """An answer to some publishes, from half a slice on."""

    def fault(bench: Bench, send: Send) -> None:
        bench.stack.sns.answer(Rule(code=code, share=share, times=times, after=HALF_A_SLICE))
        send()
        bench.settle()

    return fault


def application_off(bench: Bench, send: Send) -> None:
    """A platform application takes nothing until an operator acts: it is left alone, the other one goes on."""
    bench.stack.sns.answer(Rule(code="PlatformApplicationDisabled", endpoint="/GCM/"))
    before = bench.stack.sns.counts().refused.get("PlatformApplicationDisabled", 0)
    records = bench.records(*DELIVERY)
    send()
    until("its recipients wait and come back", lambda: bench.records(*DELIVERY) >= records + 2, every_s=0.1)
    refused = bench.stack.sns.counts().refused["PlatformApplicationDisabled"] - before
    assert refused <= 2 * WORKERS, f"{refused} calls for an application that takes nothing"
    bench.stack.sns.clear()


def one_of_two_gone(bench: Bench, send: Send) -> None:
    """One device of those who have two takes nothing any more: the other does, and only it is called from then on."""
    send()  # everybody, as yet without a fault
    bench.settle()
    endpoints = bench.population.endpoints
    users = [user_id for user_id in bench.sends[0].fates if len(endpoints.get(user_id, [])) == 2]
    dead = {user_id: next(arn for arn in endpoints[user_id] if "/APNS/" in arn) for user_id in users}
    bench.stack.sns.answer(*(Rule(code="EndpointDisabled", endpoint=arn) for arn in dead.values()))
    for _ in range(2):
        sent = bench.emit(users)
        sent.calls = {
            user_id: [pair for pair in pairs if pair[1] != dead[user_id]] for user_id, pairs in sent.calls.items()
        }
        bench.settle()
        until("the devices are inactive", lambda: _disabled(bench, [user_id * 10 + 1 for user_id in users]))
        bench.stack.sns.clear()  # it would be taken again: nobody asks


def slower_than_an_invocation(bench: Bench, send: Send) -> None:
    """The provider takes its time, and an invocation ends before its record: in peace, between two calls."""
    with bench.stack.configured({"delivery": {"timeout_s": 20}}):
        bench.stack.sns.answer(Rule(code="slow", delay_s=2.0))
        send()
        until("it goes on in another invocation", lambda: bench.failures() > 0, every_s=0.1)
        bench.stack.sns.clear()
        bench.settle()


def times_out_again_and_again(bench: Bench, send: Send) -> None:
    """What a function needs hangs for longer than the function may take, until its records were given up on often."""
    few = {"CRASHES_UNTIL_DEAD_LETTER": "1", "CHAIN_TIMEOUT_S": "2"}
    builder = {"timeout_s": 2, "event_source": {"attempts": 2}}
    with bench.stack.configured({"builder": builder, "scheduler": {"environment": few}}):
        before = bench.records(topics.ON_FAILURE)
        with bench.stack.opensearch.fault(Delay(4), when=_asks_for_user(bench.shared[5])):
            send()
            until("it was given up on often", lambda: bench.records(topics.ON_FAILURE) >= before + 3, 60, every_s=0.2)


def crashes_again_and_again(bench: Bench, send: Send) -> None:
    """One record ends its function's process each time; the others of its batch go on."""
    few = {"CRASHES_UNTIL_DEAD_LETTER": "1"}
    with bench.stack.configured({"builder": {"event_source": {"attempts": 2}}, "scheduler": {"environment": few}}):
        users = list(bench.shared[1000:1120])
        marked = users[5]  # who wants it
        # Those of the record who are passed to the builder end with it.
        with bench.stack.opensearch.fault(Hold(), when=_asks_for_user(marked)) as asked:
            sent = bench.emit(users)
            sent.fates = {
                user_id: frozenset({"dead_letter"}) if fate in ({"sent"}, {"no_device"}) else fate
                for user_id, fate in sent.fates.items()
            }
            sent.calls = {}
            send()
            hits = 0

            def put_aside() -> bool:
                nonlocal hits
                if asked.hits > hits:
                    hits = asked.hits
                    bench.kill("builder")
                return bench.ended(sent)

            until("it is put aside", put_aside, 120, every_s=0.05)
        bench.settle()


def expires(bench: Bench, send: Send) -> None:
    """The provider takes nothing until the send has expired: nothing is published after that."""
    bench.stack.sns.answer(Rule(code="reset_before"))
    expires_at = time.time_ns() // 1_000_000 + 4_000
    sent = bench.emit(bench.shared[:200], expires_at=expires_at)
    expired = frozenset({"expired"})
    sent.fates = {user: expired if fate == {"sent"} else fate for user, fate in sent.fates.items()}
    until("expires_at", lambda: time.time_ns() // 1_000_000 > expires_at, every_s=0.1)
    bench.stack.sns.clear()


def sns_throttles(bench: Bench, send: Send) -> None:
    """A fraction of what delivery would publish is allowed."""
    before = bench.stack.sns.counts()
    bench.stack.sns.limit(per_s=60, burst=10)
    send()
    bench.settle()
    after = bench.stack.sns.counts()
    refused = after.refused.get("Throttling", 0) - before.refused.get("Throttling", 0)
    accepted = after.accepted - before.accepted
    assert refused <= accepted, f"{refused} calls refused for {accepted} that were taken: nobody slowed down"


def sns_refuses_endpoints(code: str) -> FaultOf:
    """Some endpoints take nothing any more; the devices are known to be inactive afterwards."""

    def fault(bench: Bench, send: Send) -> None:
        users = sorted(bench.gone)
        rules = [Rule(code=code, endpoint=arn) for user_id in users for arn in bench.population.endpoints[user_id]]
        bench.stack.sns.answer(*rules)
        send()
        bench.settle()
        calls = bench.stack.sns.counts().calls
        bench.stack.sns.clear()
        until("the devices are inactive", lambda: _inactive(bench, users))
        # The next send leaves them alone, though the provider would take it again.
        bench.emit(users, gone=set(users))
        bench.settle()
        assert bench.stack.sns.counts().calls == calls, "an endpoint that takes nothing was called again"

    return fault


def sns_outage(bench: Bench, send: Send) -> None:
    """Every connection is cut until what is left has come back from the scheduler, and was left to it again."""
    before = bench.records(*DELIVERY)
    bench.stack.sns.answer(Rule(code="reset_before"))
    send()
    until("a record comes back twice", lambda: bench.records(*DELIVERY) >= before + 3, 120, every_s=0.2)


# --- SES --------------------------------------------------------------------------------------------------------------


def _mail(request: Request) -> bool:
    return b"Action=SendRawEmail" in request.body


def _ses_error(status: int, code: str, message: str) -> Answer:
    body = (
        '<ErrorResponse xmlns="http://ses.amazonaws.com/doc/2010-12-01/"><Error><Type>Sender</Type>'
        f"<Code>{code}</Code><Message>{message}</Message></Error><RequestId>r</RequestId></ErrorResponse>"
    )
    return Answer(status=status, body=body.encode(), kind="text/xml")


def killed_mailing(bench: Bench, send: Send) -> None:
    """kill -9 of delivery when some slices are recorded, a part of the next is with SES, and calls are unanswered."""
    with bench.stack.mail.fault(HoldAnswer(), when=_mail, after=INSIDE_A_SLICE) as held:
        send()
        held.await_hits(HALF_A_SLICE // 2)
        bench.kill("delivery")
        held.discard()


def ses_answers(status: int, code: str, message: str, *, times: int) -> FaultOf:
    """An error instead of some messages, from half a slice on."""

    def fault(bench: Bench, send: Send) -> None:
        with bench.stack.mail.fault(
            _ses_error(status, code, message), when=_mail, after=HALF_A_SLICE, times=times
        ) as refused:
            send()
            refused.await_hits(times)
            bench.settle()

    return fault


def ses_answers_lost(bench: Bench, send: Send) -> None:
    """SES took some messages, and the connection is cut before it can say so."""
    with bench.stack.mail.fault(DropAnswer(), when=_mail, after=HALF_A_SLICE, times=5) as lost:
        send()
        lost.await_hits(5)
        bench.settle()


def ses_rejects(bench: Bench, _: Send) -> None:
    """SES will never take the messages to some addresses: these recipients have failed, and nobody else."""
    users = list(bench.shared[:100])
    rejected = users[10:13]
    names = [quote_plus(address(user_id)).encode() for user_id in rejected]
    error = _ses_error(400, "MessageRejected", "Email address is not allowed.")

    def concerned(request: Request) -> bool:
        return _mail(request) and any(name in request.body for name in names)

    with bench.stack.mail.fault(error, when=concerned):
        sent = bench.emit(users, channel="email")
        sent.fates |= {user_id: frozenset({"provider_rejected"}) for user_id in rejected}
        for user_id in rejected:
            del sent.calls[user_id]
        bench.settle()


def suppressed_address(bench: Bench, _: Send) -> None:
    """Nothing goes to an address that bounced for good before."""
    [user_id, *others] = bench.population.grow(10)
    document = {"reason": "bounced_permanent", "at": 1}
    url = f"{bench.stack.settings.opensearch_url}/suppressions/_doc/{address_id(address(user_id))}?refresh=true"
    httpx.put(url, json=document, trust_env=False).raise_for_status()
    sent = bench.emit([user_id, *others], channel="email")
    sent.fates[user_id] = frozenset({"address_suppressed"})
    del sent.calls[user_id]


# --- lanes ------------------------------------------------------------------------------------------------------------


def critical_killed_beside_bulk(bench: Bench, send: Send) -> None:
    """kill -9 of the critical lane's delivery in the middle of its send, while a bulk send is on its way."""
    on_its_way(bench, send)
    sent = bench.emit(bench.shared[500:900], critical=True)
    ours = set(sent.pairs)
    until("a part of the critical send is published", lambda: len(ours & bench.received().keys()) > HALF_A_SLICE)
    bench.kill("delivery-critical")


# --- the registry -----------------------------------------------------------------------------------------------------


def registry_down_warm(bench: Bench, send: Send) -> None:
    """Nothing is asked of it once the schemas are known."""
    bench.emit(bench.shared[:50], chunk=25)  # in the lane that the others are sent in
    bench.settle()
    with bench.stack.registry.down():
        send()
        bench.settle()


def registry_down_cold(bench: Bench, send: Send) -> None:
    """Processes that know no schema yet cannot ask for one, for a while."""
    with bench.stack.registry.fault(Cut()) as cut:
        for function in CHAIN:
            bench.kill(function)
        send()
        cut.await_hits(3)


# --- helpers ----------------------------------------------------------------------------------------------------------


def _received(bench: Bench) -> set[tuple[str, str]]:
    """What the provider took of this cell's sends."""
    ours = {pair for sent in bench.sends for pairs in sent.calls.values() for pair in pairs}
    return ours & bench.received().keys()


def _inactive(bench: Bench, users: Sequence[int]) -> bool:
    """Whether each device of these people is known to take nothing."""
    devices = [user_id * 10 + place for user_id in users for place in range(len(bench.population.endpoints[user_id]))]
    return _disabled(bench, devices)


def _disabled(bench: Bench, devices: Sequence[int]) -> bool:
    url = f"{bench.stack.settings.opensearch_url}/device_state/_mget"
    answer = httpx.post(url, json={"ids": [str(device) for device in devices]}, trust_env=False).raise_for_status()
    return all(document["_source"]["enabled"] is False for document in answer.json()["docs"])
