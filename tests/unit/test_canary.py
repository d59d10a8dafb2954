"""No address, device token, phone number or ARN appears in a log line, span, our headers or an outcome."""

import io
import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from functions.send_handler import handler as send_handler
from functions.sends_api import handler as sends_api
from masscomm.domain.outcomes import RecipientOutcome, outcome
from masscomm.domain.preferences import Decision
from masscomm.domain.provider_errors import ProviderError, Rejected, TargetGone, Transient
from masscomm.domain.statuses import Reason, Status
from masscomm.domain.users import UserSettings
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.producer import InMemoryProducer
from masscomm.observability import logs, traces
from masscomm.observability.invocation import observed
from tests.support.harness.builder import Builder
from tests.support.harness.cdc_consumer import Consumer
from tests.support.harness.chain import Chain, build, delivery, entry, send
from tests.support.harness.delivery import Delivery, by_email
from tests.support.harness.device_registrar import Registrar
from tests.support.harness.preference_checker import Checker
from tests.support.harness.receipts import Receipts
from tests.support.harness.relay import Relay
from tests.support.harness.reschedule_records import Rescheduler
from tests.support.inputs import receipt_events
from tests.support.inputs.api_gateway_events import get, lambda_context
from tests.support.inputs.debezium_records import row

ROOT = Path(__file__).parents[2]
FCM = "dQw4w9WgXcQ:APA91b" + "Canary_token-01" * 9
APNS = "c0ffee42" * 8
# Text to search for → personal data that contains it.
CANARIES = {
    "ada.canary": "ada.canary+news@mail.person.example",
    "canary user": '"canary user"@person.example',
    "canary2%40": "canary2%40person.example",
    "791234567": "+41 (0)791234567",
    "442071234567": "+442071234567",
    "APA91b": FCM,
    "c0ffee": APNS,
    "endpoint/GCM": "arn:aws:sns:eu-central-1:123456789012:endpoint/GCM/app/5e3e9847-3183-3f18-a7e8-671c3a57d4b3",
    "aws-cn": "arn:aws-cn:iam::123456789012:role/canary",
    "AKIACANARY": "AKIACANARY0123456789",
}
TEXT = "refused " + ", ".join(CANARIES.values()) + "\nx"


def assert_clean(text: str) -> None:
    assert [canary for canary in CANARIES if canary in text] == []


@pytest.fixture
def written(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return a function that returns every log line and span since the test began."""
    monkeypatch.setenv("TRACE_EXPORT", "log")
    traces.taken()
    capsys.readouterr()

    def read() -> str:
        traces.write("test")
        captured = capsys.readouterr()
        return captured.out + captured.err

    return read


def produced(producer: InMemoryProducer, chain: Chain | None = None) -> str:
    """Return all produced headers, outcomes and device statuses as text; other values keep their original bytes."""
    headers = [
        (name, value.decode()) for _, _, _, all_of in producer.produced for name, value in all_of if name != "original"
    ]
    values: list[Any] = []
    if chain is not None:
        values += [each.to_avro() for each in chain.outcomes()]
        values += [
            chain.codec.decode("DeviceStatusChanged", value) | {"endpoint_arn": ""}
            for value in chain.values(topics.DEVICE_STATUS)
        ]
    return json.dumps([headers, values], default=str)


ERRORS = [Retry(TEXT), Stop(TEXT), DeadLetter("invalid", TEXT), KeyError(TEXT)]


def fails(error: Exception) -> Callable[..., Any]:
    def failing(*_: Any, **__: Any) -> Any:
        raise error

    return failing


@pytest.mark.kills(guard="masking.dead_letter_headers")
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("stage", ["decode", "look_up", "work", "emit", "producer"])
def test_error_at_any_stage_of_a_batch_reveals_no_canary(
    stage: str, error: Exception, written: Callable[[], str]
) -> None:
    """An error occurs at each stage of the batch driver, which every function on Kafka uses."""
    chain = Chain()
    use_case = Relay()
    if stage == "decode":
        use_case.decode_error = error
    elif stage == "look_up":
        use_case.look_up = fails(error)
    elif stage == "work":
        use_case.work = fails(error)
    elif stage == "emit":
        use_case.work, use_case.emit = fails(DeadLetter("invalid", TEXT)), fails(error)
    else:
        chain.producer.fail = lambda *_: error
    chain.run(use_case, chain.encoded(send([1]), topics.SEND_MONOLITH))
    found = written()
    assert "[address]" in found
    assert_clean(found + produced(chain.producer))


def from_checker(error: Exception) -> Chain:
    chain = Checker()
    chain.directory.put(UserSettings(user_id=2, categories={"news": {"push": False}}))
    chain.directory.failing = error
    chain.check(send([1, 2]))
    return chain


def from_builder(error: Exception) -> Chain:
    chain = Builder()
    chain.directory.failing = error
    chain.run(chain.use_case, chain.encoded(build([1, 2]), topics.BUILD))
    return chain


def from_delivery(error: Exception) -> Chain:
    chain = Delivery()
    chain.directory.failing = error
    chain.deliver(delivery([1, 2]))
    return chain


def from_receipts(error: Exception) -> Chain:
    chain = Receipts()
    chain.sent_messages(["m"])
    chain.messages.failing = error
    chain.receive(receipt_events.of_sns(json.dumps(receipt_events.BOUNCED)))
    return chain


def from_scheduler(error: Exception) -> Chain:
    chain = Rescheduler()
    chain.store.put = fails(error)  # type: ignore[method-assign]
    chain.reschedule(delivery([1]), topics.DELIVERY)
    return chain


def from_registrar(error: Exception) -> Any:
    registrar = Registrar()
    registrar.endpoints.failing = error
    columns = {"id": 11, "user_id": 1, "platform": "gcm", "token": FCM, "active": True}
    registrar.run(row("devices", "c", 10, columns))
    return registrar


def from_cdc_consumer(error: Exception) -> Any:
    consumer = Consumer()
    consumer.cluster.bulk = fails(error)  # type: ignore[method-assign]
    consumer.run(row("users", "c", 10, {"id": 1, "club_id": 1, "time_zone": None, "email": CANARIES["ada.canary"]}))
    return consumer


FUNCTIONS = (
    from_checker,
    from_builder,
    from_delivery,
    from_receipts,
    from_scheduler,
    from_registrar,
    from_cdc_consumer,
)


@pytest.mark.guarantee("privacy.no_address_leaves")
@pytest.mark.kills(guard="masking.log_lines")
@pytest.mark.kills(guard="masking.spans")
@pytest.mark.parametrize("error", [ERRORS[0], ERRORS[1], ERRORS[3]], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("run", FUNCTIONS, ids=lambda run: run.__name__)
def test_error_of_a_dependency_reveals_no_canary(
    run: Callable[[Exception], Any], error: Exception, written: Callable[[], str]
) -> None:
    chain = run(error)
    found = written()
    assert "[address]" in found
    assert_clean(found + produced(chain.producer, chain if isinstance(chain, Chain) else None))


@pytest.mark.parametrize("kind", [Rejected, TargetGone, Transient, ProviderError], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("record", [delivery([1, 2]), by_email([1, 2])], ids=["push", "email"])
def test_refusal_of_a_provider_reveals_no_canary(
    record: Any, kind: type[ProviderError], written: Callable[[], str]
) -> None:
    chain = Delivery()
    chain.push.fail = chain.email.fail = lambda _target: kind(f"InvalidParameter: {TEXT}")
    chain.deliver(record)
    assert_clean(written() + produced(chain.producer, chain))


def _filled(value: Any) -> Any:
    """Replace every free text in a receipt by a canary."""
    if isinstance(value, dict):
        return {name: _filled(each) if name not in _KEPT else each for name, each in value.items()}
    if isinstance(value, list):
        return [_filled(each) for each in value]
    return TEXT if isinstance(value, str) else value


_KEPT = {
    "eventType",
    "notificationType",
    "EventType",
    "Service",
    "messageId",
    "MessageId",
    "timestamp",
    "Time",
    "status",
}


@pytest.mark.parametrize(
    "document",
    [*receipt_events.RECEIPTS, {"mail": TEXT, "eventType": TEXT}],
)
def test_texts_of_a_receipt_reveal_no_canary(document: dict[str, Any], written: Callable[[], str]) -> None:
    chain = Receipts()
    chain.sent_messages(["m"])
    chain.receive(receipt_events.of_sns(json.dumps(_filled(document)), TEXT))
    assert_clean(written() + produced(chain.producer, chain))


@pytest.mark.parametrize("value", [TEXT.encode(), b"\x00\x00\x00\x00\x01" + TEXT.encode(), json.dumps(TEXT).encode()])
def test_unreadable_record_reveals_no_canary(value: bytes, written: Callable[[], str]) -> None:
    """The dead letter's value has the original bytes; no header or log line quotes them."""
    runs = [
        (Checker(), topics.SEND_MONOLITH),
        (Builder(), topics.BUILD),
        (Delivery(), topics.DELIVERY),
        (Rescheduler(), topics.ON_FAILURE),
    ]
    for chain, topic in runs:
        chain.run(chain.use_case, entry(value, topic=topic))  # type: ignore[attr-defined]
        assert chain.values(topics.DEAD_LETTER) == [value]
        assert_clean(written() + produced(chain.producer, chain))


@pytest.mark.parametrize("error", [Retry(TEXT), Stop(TEXT), KeyError(TEXT)], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("module", [sends_api, send_handler], ids=lambda module: module.__name__)
def test_error_of_a_rest_function_reveals_no_canary(
    module: Any, error: Exception, monkeypatch: pytest.MonkeyPatch, written: Callable[[], str]
) -> None:
    monkeypatch.setattr(module, "bootstrap", fails(error))
    path = "/v1/sends" if module is send_handler else "/v1/sends/s"
    asked = get(path) | {"httpMethod": "POST" if module is send_handler else "GET"}
    asked["body"] = json.dumps({"type": "news", "club_id": 7, "to_users": [1]})
    answer = module.handler(asked, lambda_context())
    assert answer["statusCode"] >= 500
    assert_clean(written() + json.dumps(answer))


@pytest.mark.kills(guard="masking.outcomes")
def test_text_of_a_rule_reveals_no_canary() -> None:
    """An outcome's rule may be the error of a template, which quotes the tenant's text."""
    outcomes = [RecipientOutcome(0, 1, Decision(Status.FAILED, Reason.TEMPLATE_ERROR, "template", TEXT))]
    record = outcome(build([1]), outcomes, channel="push", step="build", start=0, end=1, now_ms=0, directory=None)
    assert_clean(json.dumps(record.to_avro()))


def test_every_plain_log_is_masked() -> None:
    """A process that configures logging itself also masks the root logger."""
    for folder in ("masscomm", "functions", "cli", "local/devstack", "spark_metrics", "ops/provisioning"):
        for path in (ROOT / folder).rglob("*.py"):
            set_up = re.findall(r"^ *logging\.basicConfig\(.*\n(.*)\n", path.read_text(), re.MULTILINE)
            assert [line.strip() for line in set_up] == ["mask_root_logger()"] * len(set_up), path


def test_only_one_module_makes_loggers() -> None:
    """A logger made elsewhere would write unmasked lines."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in ("masscomm", "functions")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\bLogger\(|getLogger\(", path.read_text())
    ]
    assert sorted(found) == ["masscomm/observability/logs.py", "masscomm/untrusted.py"]


def test_an_uncaught_error_is_masked_before_lambda_logs_it() -> None:
    handler = observed(logs.logger("test_canary"))(fails(ValueError(TEXT)))
    with pytest.raises(Exception, match=r"ValueError: refused \[address\]") as raised:
        handler({}, SimpleNamespace(aws_request_id="r"))
    assert_clean(str(raised.value))
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


@pytest.fixture
def runtime_log() -> Iterator[io.StringIO]:
    """The lines that Lambda's runtime logs for libraries."""
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    yield log
    logging.getLogger().removeHandler(handler)


@pytest.mark.kills(guard="masking.library_log_lines")
def test_a_librarys_line_is_masked(runtime_log: io.StringIO) -> None:
    logs.logger("test_canary_library")
    library = logging.getLogger("some.library")
    library.warning("refused %s", TEXT)
    try:
        fails(ValueError(TEXT))()
    except ValueError:
        library.exception("failed")
    assert "[address]" in runtime_log.getvalue()
    assert_clean(runtime_log.getvalue())


def test_xray_is_sent_no_canary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACE_EXPORT", "xray")
    sent: list[bytes] = []
    monkeypatch.setattr(socket.socket, "sendto", lambda _self, data, _address: sent.append(data))
    span = traces.begin("f", traces.begun_by("s"), reference=TEXT)
    traces.end(span, TEXT)
    traces.write("f")
    assert sent
    assert_clean(b"".join(sent).decode())
