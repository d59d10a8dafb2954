"""The writers' schemas: learned from the registry once each, before a record needs them where that is possible."""

import json
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

import urllib3

from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import SchemaRegistry, UnknownSchema
from masscomm.kafka.denied_ids import DeniedIds
from spark_metrics.decode import Writers
from spark_metrics.sources import SOURCES

_log = logging.getLogger(__name__)


class Learned(NamedTuple):
    """added: how many schemas are new; refused: (kind, schema id) without a schema that can be used; asked_again:
    whether some of these are to be asked for again before their records are quarantined."""

    added: int
    refused: set[tuple[str, int]]
    asked_again: bool = False


class KnownWriters:
    """What the stream can decode.

    registry: where ids are looked up; usable: whether Spark's own Avro library takes a schema (JSON), since what one
    parser accepts another may not, and a plan that holds such a schema fails every batch.
    """

    def __init__(
        self, registry: SchemaRegistry, usable: Callable[[str], bool], denied_ids: DeniedIds | None = None
    ) -> None:
        self._registry = registry
        self._usable = usable
        self._denied_ids = denied_ids or DeniedIds()
        self._known: dict[str, dict[int, str]] = {source.kind: {} for source in SOURCES}

    @property
    def known(self) -> Writers:
        """{kind: {schema id: schema as JSON}}, a copy."""
        return {kind: dict(schemas) for kind, schemas in self._known.items()}

    def learn(self, wanted: Iterable[tuple[str, int]]) -> Learned:
        """Look (kind, schema id) pairs up; those that are refused are not remembered: the registry may know them later.

        Errors: Retry (the registry cannot be asked).
        """
        added, refused, denied = 0, set(), set()
        for kind, schema_id in wanted:
            if schema_id in self._known[kind]:
                continue
            try:
                schema = json.dumps(self._registry.schema_by_id(schema_id))
            except DeadLetter as error:
                _log.warning("schema %d cannot be had: %s", schema_id, error)
                refused.add((kind, schema_id))
                if isinstance(error, UnknownSchema):
                    denied.add(schema_id)
                continue
            if not self._usable(schema):
                refused.add((kind, schema_id))
                continue
            self._known[kind][schema_id] = schema
            added += 1
            _log.info("learned the writer schema %d of %s records", schema_id, kind)
        # Each must be asked about: its time begins with the first.
        asked_again = [each for each in denied if self._denied_ids.is_retried(each)]
        return Learned(added, refused, bool(asked_again))  # guard: metrics.denied_id_is_retried


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
