"""The writers' schemas: learned from the registry once each, before a record needs them where that is possible."""

import json
import logging
from collections.abc import Callable, Iterable

import urllib3

from masscomm.errors import DeadLetter, Retry
from masscomm.wire import SchemaRegistry
from spark_metrics.decode import Writers
from spark_metrics.sources import SOURCES

_log = logging.getLogger(__name__)


class KnownWriters:
    """What the stream can decode.

    registry: where ids are looked up; usable: whether Spark's own Avro library takes a schema (JSON), since what one
    parser accepts another may not, and a plan that holds such a schema fails every batch.
    """

    def __init__(self, registry: SchemaRegistry, usable: Callable[[str], bool]) -> None:
        self._registry = registry
        self._usable = usable
        self._known: dict[str, dict[int, str]] = {source.kind: {} for source in SOURCES}

    @property
    def known(self) -> Writers:
        """{kind: {schema id: schema as JSON}}, a copy."""
        return {kind: dict(schemas) for kind, schemas in self._known.items()}

    def learn(self, wanted: Iterable[tuple[str, int]]) -> tuple[int, set[tuple[str, int]]]:
        """Look (kind, schema id) pairs up: how many are new, and which of them are no Avro schema that can be used.

        The latter are not remembered: a registry that is restored may know them later.

        Errors: Retry (the registry cannot be asked).
        """
        added, refused = 0, set()
        for kind, schema_id in wanted:
            if schema_id in self._known[kind]:
                continue
            schema = self._schema(schema_id)
            if schema is None:
                refused.add((kind, schema_id))
            else:
                self._known[kind][schema_id] = schema
                added += 1
                _log.info("learned the writer schema %d of %s records", schema_id, kind)
        return added, refused

    def _schema(self, schema_id: int) -> str | None:
        try:
            schema = json.dumps(self._registry.schema_by_id(schema_id))
        except DeadLetter as error:
            _log.warning("schema %d cannot be had: %s", schema_id, error)
            return None
        return schema if self._usable(schema) else None


def registered_ids(registry_url: str) -> list[tuple[str, int]]:
    """(kind, schema id) of every version under our topics' subjects, so that a stream need not stumble over each.

    Source: the Confluent API's /subjects/{subject}/versions. Errors: Retry.
    """
    pool = urllib3.PoolManager(timeout=urllib3.Timeout(total=3.0), retries=False)

    def get(path: str) -> tuple[int, object]:
        try:
            response = pool.request("GET", registry_url.rstrip("/") + path)
            return response.status, json.loads(response.data) if response.status == 200 else None
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            raise Retry(f"the schema registry does not answer: {type(error).__name__}") from error

    found: dict[tuple[str, int], None] = {}
    for source in SOURCES:
        for topic in source.topics():
            status, versions = get(f"/subjects/{topic}-value/versions")
            if status not in (200, 404):
                raise Retry(f"the schema registry answered {status}")
            for version in versions if isinstance(versions, list) else []:
                _, answer = get(f"/subjects/{topic}-value/versions/{version}")
                if isinstance(answer, dict) and isinstance(answer.get("id"), int):
                    found[source.kind, answer["id"]] = None
    return list(found)
