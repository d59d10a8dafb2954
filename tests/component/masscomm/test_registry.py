import json
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest
import urllib3

from local.devstack.config import StackConfig
from local.devstack.provision import register_schemas
from masscomm.clock import FixedClock
from masscomm.errors import DeadLetter
from masscomm.kafka.avro import Codec, HttpSchemaRegistry, UnknownSchema, own_schema
from masscomm.kafka.topics import chain_topics
from tests.support.contracts.schema_registry import Registered, SchemaRegistryContract
from tests.support.harness.chain import send


class TestHttpSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registered(self, registry: StackConfig) -> Registered:
        subject = f"test.{uuid4()}-value"
        schema_id = _register(registry, subject, own_schema("SendRequested"))
        register_schemas(registry.registry_url, [each for each in chain_topics() if each.name == "outcome"])
        return Registered(
            HttpSchemaRegistry(registry.registry_url),
            subject,
            schema_id,
            absent_id=999_999,
            # The same server returns 404 with another error code on this path.
            empty=HttpSchemaRegistry(registry.registry_url.replace("/v7", "/v9")),
        )

    @pytest.mark.parametrize("id_bytes", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\0\0\0\0"])
    def test_schema_id_out_of_range_is_undecodable(self, registered: Registered, id_bytes: bytes) -> None:
        with pytest.raises(DeadLetter) as caught:
            Codec(registered.registry).decode("SendRequested", b"\0" + id_bytes)
        assert caught.value.reason == "undecodable"

    def test_a_404_without_an_error_code_is_a_denial(self, registered: Registered, registry: StackConfig) -> None:
        """The registry answers an id beyond 31 bits like a wrong path; our own schema's id proves the path right."""
        answer = urllib3.request("GET", f"{registry.registry_url}/schemas/ids/{2**31}")
        assert (answer.status, answer.json()["error_code"]) == (404, 0)
        with pytest.raises(UnknownSchema):
            registered.registry.schema_by_id(2**31)

    def test_a_schema_registered_late_is_found(self, registered: Registered, registry: StackConfig) -> None:
        clock = FixedClock()
        asking = HttpSchemaRegistry(registry.registry_url, clock=clock)
        last = _register(registry, registered.subject, own_schema("SendRequested") | {"doc": str(uuid4())})
        denied = []
        # the registry numbers schemas, and other tests register schemas concurrently
        for schema_id in range(last + 1, last + 50):
            with suppress(UnknownSchema):
                asking.schema_by_id(schema_id)
                continue
            denied.append(schema_id)
        late = own_schema("SendRequested") | {"doc": str(uuid4())}
        schema_id = _register(registry, registered.subject, late)
        assert schema_id in denied
        clock.advance(1.1)
        assert asking.schema_by_id(schema_id) == late

    def test_value_is_decoded_by_another_environment(self, registered: Registered) -> None:
        topic = registered.subject.removesuffix("-value")
        data = Codec(registered.registry).encode(topic, "SendRequested", send([1, 2]).to_avro())
        assert int.from_bytes(data[1:5], "big") == registered.schema_id
        assert Codec(registered.registry).decode("SendRequested", data) == send([1, 2]).to_avro()


def _register(registry: StackConfig, subject: str, schema: dict[str, Any]) -> int:
    answer = urllib3.request(
        "POST",
        f"{registry.registry_url}/subjects/{subject}/versions",
        body=json.dumps({"schema": json.dumps(schema)}),
        headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
    )
    assert answer.status == 200, answer.data
    schema_id: int = answer.json()["id"]
    return schema_id
