"""The registry adapter on the real registry."""

import json
from uuid import uuid4

import pytest
import urllib3

from devstack.settings import StackSettings
from masscomm.wire import Codec, HttpSchemaRegistry, own_schema
from tests.chain import send
from tests.registry_contract import Registered, SchemaRegistryContract


class TestHttpSchemaRegistry(SchemaRegistryContract):
    @pytest.fixture
    def registered(self, registry: StackSettings) -> Registered:
        topic = f"test.{uuid4()}"
        answer = urllib3.request(
            "POST",
            f"{registry.registry_url}/subjects/{topic}-value/versions",
            body=json.dumps({"schema": json.dumps(own_schema("SendRequested"))}),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        assert answer.status == 200, answer.data
        schema_id = answer.json()["id"]
        return Registered(HttpSchemaRegistry(registry.registry_url), f"{topic}-value", schema_id, absent_id=999_999)

    def test_what_was_encoded_for_a_topic_is_decoded_by_another_environment(self, registered: Registered) -> None:
        topic = registered.subject.removesuffix("-value")
        data = Codec(registered.registry).encode(topic, "SendRequested", send([1, 2]).to_avro())
        assert int.from_bytes(data[1:5], "big") == registered.schema_id
        assert Codec(registered.registry).decode("SendRequested", data) == send([1, 2]).to_avro()
