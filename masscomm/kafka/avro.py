"""Encodes and decodes Avro in the Confluent wire format: a zero byte, the schema id in four bytes (big endian), the
value.

confluent-kafka's serializers have the same format, but importing them takes 0.4 s more of the processor than fastavro
(docs/decisions/058-own-clients.md).
"""

import io
import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn, Protocol, Self

from masscomm import environment
from masscomm.clock import Clock, SystemClock
from masscomm.domain.time_limits import DENIAL_CACHED_S, REGISTRY_REQUEST_S
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from masscomm.kafka.registry_sign_in import SECRET_SETTING, RegistrySignIn
from masscomm.kafka.time_units import time_units
from schemas import read_text

_MAGIC = 0
_HEADER_BYTES = 5
# The largest schema id: ids are Java ints. For a larger id a registry returns the error of an unknown path.
LAST_SCHEMA_ID = 2**31 - 1
# Every masscomm installation registers this subject: a registry that does not have it is empty or the wrong one.
KNOWN_SUBJECT = f"{topics.OUTCOME}-value"
# HTTP statuses that the code's own requests or permissions cause: bad request, unauthenticated, forbidden, invalid
# schema.
_REFUSED = (400, 401, 403, 422)
_DENIALS_KEPT = 1_000
# The errors of fastavro if a value does not match a schema.
_MISMATCHES = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


class UnknownSchema(DeadLetter):
    """The registry has no schema with this id, although it has the schema of KNOWN_SUBJECT. It may get the schema
    later.
    """

    def __init__(self, schema_id: int) -> None:
        super().__init__("unknown_schema", f"the registry knows no schema with id {schema_id}")
        self.schema_id = schema_id


class SchemaRegistry(Protocol):
    """The interface of a schema registry: it returns writer schemas by id, and the ids of masscomm's own schemas by
    subject.
    """

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """Return the Avro schema with that id.

        Raises:
            UnknownSchema: the registry has no schema with that id.
            DeadLetter: the schema is not an Avro record (unknown_schema).
            Retry: the registry is unavailable, or it does not have the schema of KNOWN_SUBJECT either.
        """
        ...

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int:
        """Return the id of a schema under a subject; the registered schema must be identical.

        Raises:
            Stop: the subject does not contain the schema, or the registry refuses the request.
            Retry: the registry is unavailable.
        """
        ...


class HttpSchemaRegistry:
    """A Confluent-compatible registry over HTTP. Schemas are immutable and cached; the answer that an id is unknown
    is cached for one second.

    Args:
        sign_in: The credentials of the requests; None: the registry needs none.
        known_subject: A subject that the registry has, unless it is empty or the wrong one.
    """

    def __init__(
        self,
        url: str,
        *,
        sign_in: RegistrySignIn | None = None,
        known_subject: str = KNOWN_SUBJECT,
        timeout_s: float = REGISTRY_REQUEST_S,
        clock: Clock | None = None,
    ) -> None:
        import urllib3

        self._url = url.rstrip("/")
        self._sign_in = sign_in
        self._known_subject = known_subject
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(total=timeout_s),
            # The header Retry-After is ignored: the registry may request an hour, and an invocation has only seconds.
            retries=urllib3.Retry(connect=1, read=0, redirect=0, status=0, other=0, respect_retry_after_header=False),
        )
        self._schemas: dict[int, dict[str, Any]] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._clock = clock or SystemClock()
        self._denied_until: dict[int, float] = {}
        self._trusted_until = 0.0

    @classmethod
    def from_environment(cls) -> Self:
        """Return the registry that the environment variables name. Raises Stop if SCHEMA_REGISTRY_URL is missing."""
        sign_in = RegistrySignIn.with_secret(os.environ.get(SECRET_SETTING, ""))
        return cls(environment.required("SCHEMA_REGISTRY_URL"), sign_in=sign_in)

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in self._schemas:
            if self._clock.monotonic() < self._denied_until.get(schema_id, 0.0):
                raise UnknownSchema(schema_id)
            status, body = self._request("GET", f"/schemas/ids/{schema_id}")
            if status == 404:
                self._deny(schema_id)
            self._schemas[schema_id] = _schema_in(self._expect(status, body), schema_id)
        return self._schemas[schema_id]

    def _deny(self, schema_id: int) -> NoReturn:
        """Cache that the registry does not know a schema id, and raise UnknownSchema; raise Retry if it does not
        know the subject that it must have either.
        """
        if self._clock.monotonic() >= self._trusted_until:  # guard: registry.known_schema
            try:
                known = self._expect(*self._request("GET", f"/subjects/{self._known_subject}/versions/latest")).get(
                    "id"
                )
                self._expect(*self._request("GET", f"/schemas/ids/{known}"))
            except Retry as error:
                raise Retry(
                    f"schema {schema_id} is denied, and {self._known_subject} is not known either: {error}"
                ) from error
            self._trusted_until = self._clock.monotonic() + DENIAL_CACHED_S
        self._denied_until.pop(schema_id, None)
        if len(self._denied_until) >= _DENIALS_KEPT:
            del self._denied_until[next(iter(self._denied_until))]
        self._denied_until[schema_id] = self._clock.monotonic() + DENIAL_CACHED_S
        raise UnknownSchema(schema_id)

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int:
        text = json.dumps(schema)
        if (subject, text) not in self._ids:
            status, body = self._request("POST", f"/subjects/{subject}?normalize=true", {"schema": text})
            if status == 404:
                raise Stop(
                    f"the registry's subject {subject} does not have the schema of this code: deploy schemas/ first"
                )
            if status in _REFUSED:
                raise Stop(f"the registry refuses to look up the schema of {subject}: it answered {status}")
            schema_id = self._expect(status, body).get("id")
            if not isinstance(schema_id, int):
                raise Retry(f"the schema registry answered without an id for {subject}")
            self._ids[subject, text] = schema_id
        return self._ids[subject, text]

    def ids_of(self, subject: str) -> list[int]:
        """Return the schema ids of all versions of a subject; none if the registry does not have it. Raises Retry."""
        status, body = self._request("GET", f"/subjects/{subject}/versions")
        if status == 404:
            return []
        found = []
        for version in self._read(status, body, list):
            status, body = self._request("GET", f"/subjects/{subject}/versions/{version}")
            if status != 404:
                found.append(self._expect(status, body)["id"])
        return found

    def _request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer. Raises Retry, or Stop for a secret that cannot be used."""
        status, answer = self._send(method, path, body)
        if status == 401 and self._sign_in is not None:  # guard: registry.rotated_password
            self._sign_in.forget()
            status, answer = self._send(method, path, body)
        return status, answer

    def _send(self, method: str, path: str, body: Any) -> tuple[int, bytes]:
        import urllib3

        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        if self._sign_in is not None:
            headers["Authorization"] = self._sign_in.header()
        try:
            response = self._pool.request(
                method,
                self._url + path,
                body=None if body is None else json.dumps(body),
                headers=headers,
            )
        except urllib3.exceptions.HTTPError as error:
            raise Retry(f"the schema registry does not answer: {type(error).__name__}") from error
        return response.status, response.data

    @classmethod
    def _expect(cls, status: int, body: bytes) -> dict[str, Any]:
        answer: dict[str, Any] = cls._read(status, body, dict)
        return answer

    @staticmethod
    def _read(status: int, body: bytes, kind: type) -> Any:
        if status != 200:
            raise Retry(f"the schema registry answered {status}")
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise Retry("the schema registry answered something that is not JSON") from error
        if not isinstance(answer, kind):
            raise Retry(f"the schema registry answered something that is not a {kind.__name__}")
        return answer


def _schema_in(answer: Mapping[str, Any], schema_id: int) -> dict[str, Any]:
    if (answer.get("schemaType") or "AVRO") != "AVRO":
        raise DeadLetter("unknown_schema", f"schema {schema_id} is not Avro")
    try:
        schema = json.loads(answer["schema"])
    except (KeyError, TypeError, ValueError) as error:
        raise Retry(f"the schema registry's answer for schema {schema_id} contains no schema") from error
    if not isinstance(schema, dict):
        raise DeadLetter("unknown_schema", f"schema {schema_id} is not a record")
    return schema


class InMemorySchemaRegistry:
    """A schema registry in memory, for unit tests."""

    def __init__(self) -> None:
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, dict[str, int]] = {}

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """Register a schema under a subject and return its id, which is the same in every subject."""
        known = (schema_id for schema_id, other in self._schemas.items() if other == schema)
        schema_id = next(known, len(self._schemas) + 1)
        self._schemas[schema_id] = dict(schema)
        self._subjects.setdefault(subject, {})[json.dumps(schema)] = schema_id
        return schema_id

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        if schema_id not in self._schemas:
            if KNOWN_SUBJECT not in self._subjects:
                raise Retry(f"schema {schema_id} is denied, and {KNOWN_SUBJECT} is not known either")
            raise UnknownSchema(schema_id)
        return self._schemas[schema_id]

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int:
        try:
            return self._subjects[subject][json.dumps(schema)]
        except KeyError:
            raise Stop(f"the registry's subject {subject} does not have the schema of this code") from None


@cache
def own_schema(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(read_text(f"{name}.avsc"))
    return schema


def mismatch(schema: str, value: Mapping[str, Any]) -> str | None:
    """Return the reason why a value cannot be encoded with schemas/<schema>.avsc; None if it can."""
    import fastavro

    try:
        fastavro.schemaless_writer(io.BytesIO(), _reader_schema(schema), value)
    except _MISMATCHES as error:
        return str(error)
    return None


def _without_logical_types(schema: Any) -> Any:
    """Remove logical types from a schema, so that timestamps stay integers: creating a datetime for each recipient
    would take time without a use.
    """
    if isinstance(schema, dict):
        return {key: _without_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    return schema


@cache
def _reader_schema(name: str) -> Any:
    import fastavro.schema

    return fastavro.schema.parse_schema(_without_logical_types(own_schema(name)))


def schema_id_of(data: bytes | None) -> int:
    """Return the schema id at the beginning of a value. Raises DeadLetter if there is none."""
    if not data:
        raise DeadLetter("undecodable", "the record has no value")
    if len(data) < _HEADER_BYTES or data[0] != _MAGIC:
        raise DeadLetter("undecodable", "the value does not begin with a zero byte and a schema id")
    schema_id = int.from_bytes(data[1:_HEADER_BYTES], "big")
    if not 0 < schema_id <= LAST_SCHEMA_ID:  # guard: registry.schema_id_range
        raise DeadLetter("undecodable", f"{schema_id} is not a schema id, which are 1 to {LAST_SCHEMA_ID}")
    return schema_id


def read_value(data: bytes, schema_id: int, writer: Any, reader: Any = None, *, is_whole: bool = True) -> Any:
    """Return the decoded value of a record in the wire format.

    Args:
        data: The whole value.
        schema_id: The id in the value, for messages.
        writer: The writer's schema, parsed by fastavro.
        reader: The schema to which the value is resolved, parsed by fastavro; None: the writer's.
        is_whole: Whether no byte may be left over.

    Raises:
        DeadLetter: The schema cannot decode the value, or bytes are left over.
    """
    import fastavro

    buffer = io.BytesIO(data)
    buffer.seek(_HEADER_BYTES)
    try:
        value = fastavro.schemaless_reader(buffer, writer, reader)
    except Exception as error:
        # Invalid bytes raise exceptions of many types, from EOFError to OverflowError.
        raise DeadLetter("undecodable", f"schema {schema_id} does not read the value: {error!r}"[:500]) from error
    if is_whole and buffer.tell() != len(data):
        raise DeadLetter("undecodable", f"{len(data) - buffer.tell()} bytes are left over after schema {schema_id}")
    return value


class Codec:
    """Encodes masscomm's records, and decodes those of other producers. Once its cache is filled, it sends no
    request to the registry.
    """

    def __init__(self, registry: SchemaRegistry) -> None:
        import fastavro.schema  # noqa: F401 - import at a function's start, not at its first record

        self._registry = registry
        # By schema id and name: the writer's schema, and the divisors of its times.
        self._writers: dict[tuple[int, str], tuple[Any, Mapping[str, int]]] = {}
        # By schema id, name and field: the writer's schema up to the field.
        self._parts: dict[tuple[int, str, str], Any] = {}
        # By topic and schema name: the first bytes of each value.
        self._headers: dict[tuple[str, str], bytes] = {}

    def encode(self, topic: str, schema: str, value: Mapping[str, Any]) -> bytes:
        """Encode a record of schemas/<schema>.avsc for a topic.

        Raises:
            Stop: the schema is not deployed.
            Retry: the registry is unavailable.
            ValueError: the value does not match the schema.
        """
        import fastavro

        buffer = io.BytesIO()
        buffer.write(self.prefix(topic, schema))
        try:
            fastavro.schemaless_writer(buffer, _reader_schema(schema), value)
        except _MISMATCHES as error:
            raise ValueError(f"the value does not match {schema}.avsc: {error}") from error
        return buffer.getvalue()

    def prefix(self, topic: str, schema: str) -> bytes:
        """Return the first bytes of each value: a zero byte and the schema's id. Raises Stop or Retry."""
        found = self._headers.get((topic, schema))
        if found is None:
            schema_id = self._registry.id_of(f"{topic}-value", own_schema(schema))
            found = self._headers[topic, schema] = bytes([_MAGIC]) + schema_id.to_bytes(4, "big")
        return found

    def decode(self, schema: str, data: bytes | None) -> dict[str, Any]:
        """Decode a record and resolve it from its writer's schema to schemas/<schema>.avsc.

        Raises:
            UnknownSchema: the registry does not know the schema id yet.
            DeadLetter: the record is undecodable, or its schema cannot be used (unknown_schema).
            Retry: the registry is unavailable.
        """
        schema_id = schema_id_of(data)
        writer, divisors = self._writer(schema_id, schema)
        value = read_value(data or b"", schema_id, writer, _reader_schema(schema))
        if not isinstance(value, dict):
            raise DeadLetter("undecodable", f"schema {schema_id} is not a record")
        for field, divisor in divisors.items():  # guard: registry.unit_of_the_writer
            if value[field] is not None:
                value[field] //= divisor
        return value

    def field(self, schema: str, data: bytes | None, name: str) -> Any:
        """Decode a field of a record of schemas/<schema>.avsc, and none of those after it: in a hundredth of the time
        for a field before the columns of recipients. Raises as `decode` does; a record without the field is a
        DeadLetter.
        """
        schema_id = schema_id_of(data)
        writer = self._until(schema_id, schema, name)
        return read_value(data or b"", schema_id, writer, is_whole=False)[name]

    def _until(self, schema_id: int, schema: str, name: str) -> Any:
        """Return the writer's schema up to a field."""
        import fastavro.schema

        if (schema_id, schema, name) not in self._parts:
            whole, _ = self._writer(schema_id, schema)
            names = [field["name"] for field in whole["fields"]]
            if name not in names:
                raise DeadLetter("undecodable", f"schema {schema_id} has no field {name}")
            first = whole["fields"][: names.index(name) + 1]
            part = {"type": "record", "name": f"{schema}Part", "fields": first}
            self._parts[schema_id, schema, name] = fastavro.schema.parse_schema(part)
        return self._parts[schema_id, schema, name]

    def _writer(self, schema_id: int, name: str) -> tuple[Any, Mapping[str, int]]:
        import fastavro.schema

        if (schema_id, name) not in self._writers:
            schema = self._registry.schema_by_id(schema_id)
            try:
                parsed = fastavro.schema.parse_schema(_without_logical_types(schema))
            except Exception as error:  # The registry may have accepted a schema that fastavro refuses.
                raise DeadLetter("unknown_schema", f"schema {schema_id} cannot be used: {error!r}"[:500]) from error
            units = time_units(own_schema(name), schema)
            if units.problem:  # guard: registry.local_time
                raise DeadLetter("unknown_schema", f"schema {schema_id} cannot be used: {units.problem}")
            # fastavro compares both schemas for each record, a quarter of its time unless they are the same object.
            reader = _reader_schema(name)
            self._writers[schema_id, name] = (reader if parsed == reader else parsed, units.divisors)
        return self._writers[schema_id, name]
