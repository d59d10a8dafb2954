"""Avro in the Confluent wire format: a zero byte, the schema's id in four bytes (big endian), the value."""

import io
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NoReturn, Protocol

from masscomm.clock import Clock, SystemClock
from masscomm.errors import DeadLetter, Retry, Stop
from masscomm.kafka import topics
from schemas import read_text

_MAGIC = 0
_HEADER_BYTES = 5
# Registries number schemas with Java's int: what is no such number they refuse as they refuse a wrong path.
LAST_SCHEMA_ID = 2**31 - 1
# Every installation registers it: a registry that denies this one, too, is a wrong or an empty one.
KNOWN_SUBJECT = f"{topics.OUTCOME}-value"
# Bad request, no login, not allowed, no schema: of what this code sends, and of its rights.
_REFUSED = (400, 401, 403, 422)
# So long a denial holds: the records of a batch ask once.
_DENIED_FOR_S = 1.0
_DENIALS_KEPT = 1_000


class UnknownSchema(DeadLetter):
    """The registry denies this schema id, and knows another that it must know. A moment later it may know it."""

    def __init__(self, schema_id: int) -> None:
        super().__init__("unknown_schema", f"the registry knows no schema with id {schema_id}")
        self.schema_id = schema_id


class SchemaRegistry(Protocol):
    """Where writer schemas are found by id, and our own by subject."""

    def schema_by_id(self, schema_id: int) -> dict[str, Any]:
        """The Avro schema with that id.

        Errors: UnknownSchema where the registry has none; DeadLetter(unknown_schema) where it is no Avro record; Retry
        where the registry cannot be asked, or also denies the schema of KNOWN_SUBJECT.
        """
        ...

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int:
        """The id under which the subject holds exactly that schema.

        Errors: Stop where it does not hold it, Retry where it cannot be asked.
        """
        ...


class HttpSchemaRegistry:
    """A Confluent-compatible registry over HTTP; schemas are kept, being immutable, and denials for a second."""

    def __init__(self, url: str, *, timeout_s: float = 3.0, clock: Clock | None = None) -> None:
        import urllib3

        self._url = url.rstrip("/")
        self._pool = urllib3.PoolManager(
            timeout=urllib3.Timeout(total=timeout_s),
            # Retry-After is not obeyed here: the registry may ask for an hour, and an invocation has seconds.
            retries=urllib3.Retry(connect=1, read=0, redirect=0, status=0, other=0, respect_retry_after_header=False),
        )
        self._schemas: dict[int, dict[str, Any]] = {}
        self._ids: dict[tuple[str, str], int] = {}
        self._clock = clock or SystemClock()
        self._denied_until: dict[int, float] = {}
        self._trusted_until = 0.0

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
        """Errors: UnknownSchema; Retry, where the registry does not know a schema that it must know either."""
        if self._clock.monotonic() >= self._trusted_until:  # guard: registry.known_schema
            try:
                known = self._expect(*self._request("GET", f"/subjects/{KNOWN_SUBJECT}/versions/latest")).get("id")
                self._expect(*self._request("GET", f"/schemas/ids/{known}"))
            except Retry as error:
                raise Retry(
                    f"schema {schema_id} is denied, and {KNOWN_SUBJECT} is not known either: {error}"
                ) from error
            self._trusted_until = self._clock.monotonic() + _DENIED_FOR_S
        self._denied_until.pop(schema_id, None)
        if len(self._denied_until) >= _DENIALS_KEPT:
            del self._denied_until[next(iter(self._denied_until))]
        self._denied_until[schema_id] = self._clock.monotonic() + _DENIED_FOR_S
        raise UnknownSchema(schema_id)

    def id_of(self, subject: str, schema: Mapping[str, Any]) -> int:
        text = json.dumps(schema)
        if (subject, text) not in self._ids:
            status, body = self._request("POST", f"/subjects/{subject}?normalize=true", {"schema": text})
            if status == 404:
                raise Stop(
                    f"the registry's subject {subject} does not hold the schema this code writes: deploy schemas/ first"
                )
            if status in _REFUSED:
                raise Stop(f"the registry refuses to look up the schema of {subject}: it answered {status}")
            schema_id = self._expect(status, body).get("id")
            if not isinstance(schema_id, int):
                raise Retry(f"the schema registry answered without an id for {subject}")
            self._ids[subject, text] = schema_id
        return self._ids[subject, text]

    def _request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        import urllib3

        try:
            response = self._pool.request(
                method,
                self._url + path,
                body=None if body is None else json.dumps(body),
                headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
            )
        except urllib3.exceptions.HTTPError as error:
            raise Retry(f"the schema registry does not answer: {type(error).__name__}") from error
        return response.status, response.data

    @staticmethod
    def _expect(status: int, body: bytes) -> dict[str, Any]:
        if status != 200:
            raise Retry(f"the schema registry answered {status}")
        try:
            answer = json.loads(body)
        except ValueError as error:
            raise Retry("the schema registry answered something that is not JSON") from error
        if not isinstance(answer, dict):
            raise Retry("the schema registry answered something that is not an object")
        return answer


def _schema_in(answer: Mapping[str, Any], schema_id: int) -> dict[str, Any]:
    if (answer.get("schemaType") or "AVRO") != "AVRO":
        raise DeadLetter("unknown_schema", f"schema {schema_id} is not Avro")
    try:
        schema = json.loads(answer["schema"])
    except (KeyError, TypeError, ValueError) as error:
        raise Retry(f"the schema registry's answer for schema {schema_id} holds no schema") from error
    if not isinstance(schema, dict):
        raise DeadLetter("unknown_schema", f"schema {schema_id} is not a record")
    return schema


class InMemorySchemaRegistry:
    """The registry's contract without a server, for unit tests."""

    def __init__(self) -> None:
        self._schemas: dict[int, dict[str, Any]] = {}
        self._subjects: dict[str, dict[str, int]] = {}

    def register(self, subject: str, schema: Mapping[str, Any]) -> int:
        """Put a schema under a subject; the same schema has the same id everywhere."""
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
            raise Stop(f"the registry's subject {subject} does not hold the schema this code writes") from None


@cache
def own_schema(name: str) -> dict[str, Any]:
    """The schema of schemas/<name>.avsc."""
    schema: dict[str, Any] = json.loads(read_text(f"{name}.avsc"))
    return schema


def _without_logical_types(schema: Any) -> Any:
    """Timestamps stay the integers they are on the wire: nothing here needs a datetime a recipient."""
    if isinstance(schema, dict):
        return {key: _without_logical_types(value) for key, value in schema.items() if key != "logicalType"}
    if isinstance(schema, list):
        return [_without_logical_types(item) for item in schema]
    return schema


@cache
def _reader_schema(name: str) -> Any:
    import fastavro.schema

    return fastavro.schema.parse_schema(_without_logical_types(own_schema(name)))


class Codec:
    """Encodes our records and decodes anybody's of the same kind; in steady state it asks the registry nothing."""

    def __init__(self, registry: SchemaRegistry) -> None:
        import fastavro.schema  # noqa: F401 - here, where a function is built, and not with its first record

        self._registry = registry
        self._writers: dict[int, Any] = {}

    def encode(self, topic: str, schema: str, value: Mapping[str, Any]) -> bytes:
        """The bytes of a record of schemas/<schema>.avsc for a topic.

        Errors: Stop (the schema is not deployed), Retry (the registry cannot be asked), ValueError (not of the schema).
        """
        import fastavro

        schema_id = self._registry.id_of(f"{topic}-value", own_schema(schema))
        buffer = io.BytesIO()
        buffer.write(bytes([_MAGIC]) + schema_id.to_bytes(4, "big"))
        fastavro.schemaless_writer(buffer, _reader_schema(schema), value)
        return buffer.getvalue()

    def decode(self, schema: str, data: bytes | None) -> dict[str, Any]:
        """A record, resolved from its writer's schema to schemas/<schema>.avsc.

        Errors: DeadLetter(undecodable | unknown_schema), of which UnknownSchema may be mended by time; Retry where the
        registry cannot be asked.
        """
        import fastavro

        if not data:
            raise DeadLetter("undecodable", "the record has no value")
        if len(data) < _HEADER_BYTES or data[0] != _MAGIC:
            raise DeadLetter("undecodable", "the value does not begin with a zero byte and a schema id")
        schema_id = int.from_bytes(data[1:_HEADER_BYTES], "big")
        if not 0 < schema_id <= LAST_SCHEMA_ID:  # guard: registry.schema_id_range
            raise DeadLetter("undecodable", f"{schema_id} is no schema id: they are 1 to {LAST_SCHEMA_ID}")
        writer = self._writer(schema_id)
        buffer = io.BytesIO(data)
        buffer.seek(_HEADER_BYTES)
        try:
            value = fastavro.schemaless_reader(buffer, writer, _reader_schema(schema))
        except Exception as error:  # fastavro raises whatever the bytes provoke, from EOFError to OverflowError
            raise DeadLetter("undecodable", f"schema {schema_id} does not read the value: {error!r}"[:500]) from error
        if buffer.tell() != len(data):
            raise DeadLetter("undecodable", f"{len(data) - buffer.tell()} bytes are left over after schema {schema_id}")
        if not isinstance(value, dict):
            raise DeadLetter("undecodable", f"schema {schema_id} is not a record")
        return value

    def _writer(self, schema_id: int) -> Any:
        import fastavro.schema

        if schema_id not in self._writers:
            schema = self._registry.schema_by_id(schema_id)
            try:
                self._writers[schema_id] = fastavro.schema.parse_schema(_without_logical_types(schema))
            except Exception as error:  # a schema the registry took and fastavro does not
                raise DeadLetter("unknown_schema", f"schema {schema_id} cannot be used: {error!r}"[:500]) from error
        return self._writers[schema_id]
