"""The writers' schemas. Each is read from the registry once, if possible before a record needs it."""

import json
import logging
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyspark.sql import SparkSession

from masscomm.errors import DeadLetter, Retry
from masscomm.kafka.avro import HttpSchemaRegistry, SchemaRegistry, UnknownSchema, own_schema
from masscomm.kafka.denied_ids import DeniedIds
from masscomm.kafka.time_units import time_units
from spark_metrics.common.session import is_usable_schema
from spark_metrics.common.settings import Settings
from spark_metrics.common.sources import all_sources
from spark_metrics.counting.decode import Writers

_log = logging.getLogger(__name__)
# The number of refused ids that are remembered, so that random bytes need no memory.
_LOGGED_IDS = 1_000


class Learned(NamedTuple):
    """The result of a look-up.

    Attributes:
        added: The number of new schemas.
        refused: (kind, schema id) without a usable schema.
        asked_again: Whether the archive looks some of `refused` up again before it appends their records.
    """

    added: int
    refused: set[tuple[str, int]]
    asked_again: bool = False


class KnownWriters:
    """The writers' schemas that the stream can decode.

    Args:
        registry: The registry from which schemas are read.
        usable: Returns whether Spark's Avro library accepts a schema as JSON. The libraries differ, and a plan with an
            unusable schema fails every batch.
        quiet: Whether refused ids are not logged, because the stream, which reads the same records, logs them.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        usable: Callable[[str], bool],
        denied_ids: DeniedIds | None = None,
        *,
        quiet: bool = False,
    ) -> None:
        self._registry = registry
        self._usable = usable
        self._denied_ids = denied_ids or DeniedIds()
        self._quiet = quiet
        self._logged: set[int] = set()
        self._readers = {source.kind: own_schema(source.schema) for source in all_sources()}
        self._known: dict[str, dict[int, str]] = {kind: {} for kind in self._readers}

    @property
    def known(self) -> Writers:
        """Return a copy of the schemas as JSON, {kind: {schema id: schema}}."""
        return {kind: dict(schemas) for kind, schemas in self._known.items()}

    def learn(self, wanted: Iterable[tuple[str, int]]) -> Learned:
        """Read the schemas of (kind, schema id) pairs. A refused pair is not stored, because the registry may get its
        schema later.

        Raises Retry if the registry is unavailable.
        """
        added, refused, denied = 0, set(), set()
        for kind, schema_id in wanted:
            if schema_id in self._known[kind]:
                continue
            try:
                written = self._registry.schema_by_id(schema_id)
            except DeadLetter as error:
                self._log_once(schema_id, str(error))
                refused.add((kind, schema_id))
                if isinstance(error, UnknownSchema):
                    denied.add(schema_id)
                continue
            except Retry as error:
                raise Retry(f"schema {schema_id} of {kind} records: {error}") from error
            schema = json.dumps(written)
            if not self._usable(schema):
                self._log_once(schema_id, "Spark's Avro library refuses it")
                refused.add((kind, schema_id))
                continue
            problem = time_units(self._readers[kind], written).problem
            if problem:  # guard: metrics.local_time
                self._log_once(schema_id, problem)
                refused.add((kind, schema_id))
                continue
            self._known[kind][schema_id] = schema
            added += 1
            _log.info("learned the writer schema %d of %s records", schema_id, kind)
        # Look up every id: the retry time of an id begins when it is first denied.
        asked_again = [each for each in denied if self._denied_ids.is_retried(each)]
        return Learned(added, refused, bool(asked_again))  # guard: metrics.denied_id_is_retried

    def _log_once(self, schema_id: int, reason: str) -> None:
        """Log why a schema is refused.

        A denied id is looked up for each batch with its records: further lines would hide other ones.
        """
        if self._quiet or schema_id in self._logged:  # guard: metrics.refused_id_is_logged_once
            return
        if len(self._logged) >= _LOGGED_IDS:
            self._logged.clear()
        self._logged.add(schema_id)
        _log.warning("schema %d cannot be used: %s", schema_id, reason)


def no_writers(spark: SparkSession, settings: Settings, *, quiet: bool = False) -> KnownWriters:
    """Return the writers that a session can decode before any schema is learned."""
    return KnownWriters(
        settings.registry(),
        lambda schema: is_usable_schema(spark, schema),
        DeniedIds(retry_s=settings.denied_schema_retry_s),
        quiet=quiet,
    )


def registered_ids(registry: HttpSchemaRegistry) -> list[tuple[str, int]]:
    """Return (kind, schema id) of every version under our topics' subjects, so that the stream does not stop to learn
    each schema.

    Raises Retry.
    """
    return list(
        dict.fromkeys(
            (source.kind, schema_id)
            for source in all_sources()
            for topic in source.topics()
            for schema_id in registry.ids_of(f"{topic}-value")
        )
    )
