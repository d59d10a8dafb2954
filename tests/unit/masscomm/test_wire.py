"""The wire format: every value in a topic is decoded, dead-lettered, or retried while the registry is down."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from masscomm.aws import secrets
from masscomm.clock import FixedClock
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import avro
from masscomm.kafka.avro import (
    KNOWN_SUBJECT,
    Codec,
    HttpSchemaRegistry,
    InMemorySchemaRegistry,
    UnknownSchema,
    own_schema,
)
from masscomm.kafka.registry_sign_in import RegistrySignIn
from tests.support.contracts.schema_registry import Registered, SchemaRegistryContract
from tests.support.harness.chain import send
from tests.support.servers.registry_server import ConfluentRegistry, RegistryServer, serving

TOPIC, SUBJECT = "send.monolith", "send.monolith-value"


def _registry() -> InMemorySchemaRegistry:
    registry = InMemorySchemaRegistry()
    registry.register(SUBJECT, own_schema("SendRequested"))
    registry.register("delivery-value", own_schema("DeliveryRequested"))
    registry.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    return registry


def _encoded() -> bytes:
    return Codec(_registry()).encode(TOPIC, "SendRequested", send([1, 2]).to_avro())


class TestInMemorySchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registered(self) -> Registered:
        registry = _registry()
        schema_id = registry.id_of(SUBJECT, own_schema("SendRequested"))
        return Registered(registry, SUBJECT, schema_id, absent_id=999, empty=InMemorySchemaRegistry())


class TestHttpSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registered(self) -> Iterator[Registered]:
        confluent = ConfluentRegistry()
        schema_id = confluent.register(SUBJECT, own_schema("SendRequested"))
        confluent.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
        with serving(confluent) as server, serving(ConfluentRegistry()) as empty:
            yield Registered(
                HttpSchemaRegistry(server.url),
                SUBJECT,
                schema_id,
                absent_id=999,
                empty=HttpSchemaRegistry(empty.url),
            )


@pytest.mark.kills(guard="registry.rotated_password")
def test_registry_password_is_read_again_when_refused() -> None:
    """A password may be rotated while functions run, whose clients have the earlier one."""
    confluent = ConfluentRegistry()
    schema_id = confluent.register(SUBJECT, own_schema("SendRequested"))
    passwords = [{"username": "masscomm", "password": each} for each in ("first", "second", "wrong")]
    read: list[str] = []

    def secret() -> str:
        text = json.dumps(passwords.pop(0))
        read.append(text)
        return text

    with serving(confluent) as server:
        registry = HttpSchemaRegistry(server.url, sign_in=RegistrySignIn(secret))
        server.sign_in = ("masscomm", "first")
        assert registry.schema_by_id(schema_id) == own_schema("SendRequested")
        server.sign_in = ("masscomm", "second")
        assert registry.id_of(SUBJECT, own_schema("SendRequested")) == schema_id
        assert len(read) == 2
        server.sign_in = ("masscomm", "third")
        with pytest.raises(Retry, match="answered 401"):
            registry.schema_by_id(99)
        assert len(read) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"username": "masscomm"}'])
def test_unusable_registry_secret_is_a_stop(text: str) -> None:
    with pytest.raises(Stop, match="has no username or no password"):
        HttpSchemaRegistry("http://127.0.0.1:9", sign_in=RegistrySignIn(lambda: text)).schema_by_id(1)


def test_registry_of_the_environment_signs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    confluent = ConfluentRegistry()
    schema_id = confluent.register(SUBJECT, own_schema("SendRequested"))
    known = {"arn:registry": json.dumps({"username": "masscomm", "password": "a:b"})}
    monkeypatch.setattr(secrets, "read_secret", known.__getitem__)
    monkeypatch.setenv("SCHEMA_REGISTRY_SECRET_ARN", "arn:registry")
    with serving(confluent) as server:
        server.sign_in = ("masscomm", "a:b")
        monkeypatch.setenv("SCHEMA_REGISTRY_URL", server.url)
        assert HttpSchemaRegistry.from_environment().schema_by_id(schema_id) == own_schema("SendRequested")
        monkeypatch.delenv("SCHEMA_REGISTRY_SECRET_ARN")
        with pytest.raises(Retry, match="answered 401"):
            HttpSchemaRegistry.from_environment().schema_by_id(schema_id)


def test_decoded_record_equals_the_encoded_one() -> None:
    assert Codec(_registry()).decode("SendRequested", _encoded()) == send([1, 2]).to_avro()


@pytest.mark.parametrize("data", [None, b"", b"\0", b"\0\0\0\0", b"\x01\0\0\0\x01", b'{"type": "news"}'])
def test_value_without_a_schema_id_is_dead_lettered(data: bytes | None) -> None:
    with pytest.raises(DeadLetter) as caught:
        Codec(_registry()).decode("SendRequested", data)
    assert caught.value.reason == "undecodable"


@pytest.mark.parametrize("length", range(5, len(_encoded())))
def test_a_truncated_value_is_a_dead_letter(length: int) -> None:
    with pytest.raises(DeadLetter) as caught:
        Codec(_registry()).decode("SendRequested", _encoded()[:length])
    assert caught.value.reason == "undecodable"


def test_bytes_left_over_are_a_dead_letter() -> None:
    with pytest.raises(DeadLetter, match="1 bytes are left over"):
        Codec(_registry()).decode("SendRequested", _encoded() + b"\0")


def test_an_unknown_schema_id_is_a_dead_letter() -> None:
    with pytest.raises(DeadLetter) as caught:
        Codec(_registry()).decode("SendRequested", b"\0\0\0\x03\xe7" + _encoded()[5:])
    assert caught.value.reason == "unknown_schema"


@pytest.mark.guarantee("registry_answer.id_out_of_range")
@pytest.mark.kills(guard="registry.schema_id_range")
@pytest.mark.parametrize("schema_id", [0, 2**31, 2**32 - 1])
def test_schema_id_out_of_range_is_undecodable_without_request(schema_id: int) -> None:
    with _answering(503, b"") as server, pytest.raises(DeadLetter) as caught:
        Codec(HttpSchemaRegistry(server.url)).decode("SendRequested", b"\0" + schema_id.to_bytes(4, "big"))
    assert caught.value.reason == "undecodable"
    assert server.requests == []


@pytest.mark.parametrize("body", [b'{"error_code": 40403}', b'{"error_code": 0}', b"no such page"])
def test_404_is_a_denial_if_our_own_schema_is_known(body: bytes) -> None:
    confluent = ConfluentRegistry()
    confluent.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))

    def answer(method: str, path: str, sent: Any) -> tuple[int, dict[str, str], bytes]:
        return (404, {}, body) if path.endswith("/7") else confluent(method, path, sent)

    with serving(answer) as server, pytest.raises(UnknownSchema):
        HttpSchemaRegistry(server.url).schema_by_id(7)


@pytest.mark.kills(guard="registry.known_schema")
def test_404_is_retried_if_our_own_id_is_denied() -> None:
    """A gateway before the registry may answer 404 for all ids: a 404 counts only if our schema's id is found."""
    confluent = ConfluentRegistry()
    confluent.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))

    def answer(method: str, path: str, sent: Any) -> tuple[int, dict[str, str], bytes]:
        return (404, {}, b"no route") if "/ids/" in path else confluent(method, path, sent)

    with serving(answer) as server, pytest.raises(Retry, match="outcome-value is not known either"):
        HttpSchemaRegistry(server.url).schema_by_id(7)


def test_denied_id_is_requested_once_a_second() -> None:
    clock, confluent = FixedClock(), ConfluentRegistry()
    confluent.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    with serving(confluent) as server:
        registry = HttpSchemaRegistry(server.url, clock=clock)
        for _ in range(200):
            with pytest.raises(UnknownSchema):
                registry.schema_by_id(2)
        assert server.requests.count("GET /schemas/ids/2") == 1
        assert confluent.register(SUBJECT, own_schema("SendRequested")) == 2
        clock.advance(1.1)
        assert registry.schema_by_id(2) == own_schema("SendRequested")


def test_remembered_denials_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro, "_DENIALS_KEPT", 5)
    confluent = ConfluentRegistry()
    confluent.register(KNOWN_SUBJECT, own_schema("NotificationOutcome"))
    with serving(confluent) as server:
        registry = HttpSchemaRegistry(server.url, clock=FixedClock())
        for schema_id in range(2, 8):
            with pytest.raises(UnknownSchema):
                registry.schema_by_id(schema_id)
        requests = len(server.requests)
        with pytest.raises(UnknownSchema):
            registry.schema_by_id(2)
    assert len(server.requests) == requests + 1


def test_a_record_of_another_kind_is_a_dead_letter() -> None:
    other = Codec(_registry()).encode(TOPIC, "SendRequested", send([1]).to_avro())
    with pytest.raises(DeadLetter):
        Codec(_registry()).decode("DeliveryRequested", other)


@pytest.mark.parametrize("schema", [{"type": "int"}, {"type": "no such"}, {"type": "record"}])
def test_schema_of_another_record_is_a_dead_letter(schema: dict[str, Any]) -> None:
    registry = _registry()
    schema_id = registry.register("other-value", schema)
    with pytest.raises(DeadLetter):
        Codec(registry).decode("SendRequested", b"\0" + schema_id.to_bytes(4, "big") + b"\x02")


@given(st.binary(max_size=200))
@example(b"\xff" * 20)
@example(b"\x02a" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" * 3)
def test_random_bytes_are_read_or_are_a_dead_letter(data: bytes) -> None:
    codec = Codec(_registry())
    for prefix in (b"", b"\0\0\0\0\x01", b"\0\0\0\0\x02"):
        for schema in ("SendRequested", "DeliveryRequested"):
            with contextlib.suppress(DeadLetter):
                assert isinstance(codec.decode(schema, prefix + data), dict)


def test_value_that_does_not_fit_its_schema_is_refused() -> None:
    with pytest.raises((ValueError, TypeError)):
        Codec(_registry()).encode(TOPIC, "SendRequested", send([1]).to_avro() | {"to_users": ["one"]})


def test_a_subject_without_our_schema_stops_the_function() -> None:
    with pytest.raises(Stop, match=r"send\.api-value"):
        Codec(_registry()).encode("send.api", "SendRequested", send([1]).to_avro())


@contextlib.contextmanager
def _answering(status: int, body: bytes, headers: dict[str, str] | None = None) -> Iterator[RegistryServer]:
    with serving(lambda _method, _path, _body: (status, headers or {}, body)) as server:
        yield server


LIES = [
    (500, b""),
    (503, b"starting"),
    (429, b""),
    (301, b""),
    (200, b"<html>welcome to the hotel's network</html>"),
    (200, b"[]"),
    (200, b"{}"),
    (200, b'{"schema": 5}'),
    (200, b'{"schema": "{"}'),
    (200, b"\xff\xfe"),
    (404, b"no such page"),
    (404, b'{"message": "no Route matched with those values"}'),
    (404, b"[]"),
    (404, b"\xff"),
]


@pytest.mark.guarantee("registry_answer.unavailable")
@pytest.mark.parametrize(("status", "body"), LIES)
def test_malformed_registry_answer_is_a_retry(status: int, body: bytes) -> None:
    with _answering(status, body) as server, pytest.raises(Retry):
        Codec(HttpSchemaRegistry(server.url)).decode("SendRequested", _encoded())


@pytest.mark.parametrize(("status", "body"), [lie for lie in LIES if lie[0] != 404] + [(200, b'{"id": "7"}')])
def test_registry_without_our_schema_id_is_a_retry(status: int, body: bytes) -> None:
    with _answering(status, body) as server, pytest.raises(Retry):
        HttpSchemaRegistry(server.url).id_of(SUBJECT, own_schema("SendRequested"))


@pytest.mark.guarantee("registry_answer.refused_own_schema")
@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_registry_that_refuses_our_own_schema_stops(status: int) -> None:
    with _answering(status, b"{}") as server, pytest.raises(Stop):
        HttpSchemaRegistry(server.url).id_of(SUBJECT, own_schema("SendRequested"))


@pytest.mark.guarantee("registry_answer.refused_look_up")
@pytest.mark.parametrize("status", [400, 401, 403, 422])
def test_refused_schema_look_up_is_a_retry(status: int) -> None:
    """The batch's other records, whose schemas are known, are still processed."""
    with _answering(status, b"{}") as server, pytest.raises(Retry):
        HttpSchemaRegistry(server.url).schema_by_id(1)


def test_long_retry_after_of_the_registry_is_not_awaited() -> None:
    with _answering(503, b"", {"Retry-After": "3600"}) as server, pytest.raises(Retry):
        HttpSchemaRegistry(server.url).schema_by_id(1)
    assert server.requests == ["GET /schemas/ids/1"]


def test_unreachable_registry_is_a_retry() -> None:
    with _answering(200, b"{}") as server:
        url = server.url
    with pytest.raises(Retry):
        HttpSchemaRegistry(url).schema_by_id(1)


@pytest.mark.guarantee("registry_answer.unusable_schema")
@pytest.mark.parametrize(
    "answer", [{"schema": "{}", "schemaType": "PROTOBUF"}, {"schema": '"string"'}, {"schema": "[]"}]
)
def test_schema_other_than_an_avro_record_is_a_dead_letter(answer: dict[str, str]) -> None:
    with _answering(200, json.dumps(answer).encode()) as server, pytest.raises(DeadLetter) as caught:
        HttpSchemaRegistry(server.url).schema_by_id(1)
    assert caught.value.reason == "unknown_schema"


def test_a_registry_that_gives_no_schema_type_means_avro() -> None:
    answer = {"schema": json.dumps(own_schema("SendRequested")), "schemaType": None}
    with _answering(200, json.dumps(answer).encode()) as server:
        assert HttpSchemaRegistry(server.url).schema_by_id(1) == own_schema("SendRequested")


def test_known_schemas_cause_no_registry_request() -> None:
    confluent = ConfluentRegistry()
    confluent.register(SUBJECT, own_schema("SendRequested"))
    with serving(confluent) as server:
        codec = Codec(HttpSchemaRegistry(server.url))
        for _ in range(3):
            codec.decode("SendRequested", codec.encode(TOPIC, "SendRequested", send([1]).to_avro()))
    assert [request.partition("?")[0] for request in server.requests] == [
        f"POST /subjects/{SUBJECT}",
        "GET /schemas/ids/1",
    ]


def test_invalid_registry_response_is_not_cached() -> None:
    confluent = ConfluentRegistry()
    confluent.register(SUBJECT, own_schema("SendRequested"))
    with _answering(500, b"") as server:
        registry = HttpSchemaRegistry(server.url)
        with pytest.raises(Retry):
            registry.schema_by_id(1)
        server.answer = confluent
        assert registry.schema_by_id(1) == own_schema("SendRequested")


def test_timestamps_stay_the_integers_they_are_on_the_wire() -> None:
    decoded = Codec(_registry()).decode("SendRequested", _encoded())
    assert decoded["timestamp"] == send([]).timestamp
    assert type(decoded["timestamp"]) is int
