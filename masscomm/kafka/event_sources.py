"""The organisation's own topics as sources of events: the file that says which topics are read, and how their records
become events (examples/event_sources.yaml).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from masscomm.domain.event_mapping import EventMapping, InvalidMapping
from masscomm.errors import Stop
from masscomm.kafka import topics
from masscomm.safe_yaml import parse_yaml

# The job's consumer group in the brokers that have the topics: its offsets are the job's progress.
GROUP = "masscomm.spark_events"
JSON, AVRO = "json", "avro"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PATTERN = re.compile(r"[A-Za-z0-9._*-]{1,249}")
# Topics of Kafka, of Kafka Connect here and of MSK Connect, which schemas/topics.yaml does not have.
_INTERNAL_PATTERNS = ("__*", "connect.*")


@dataclass(frozen=True, kw_only=True)
class EventSource:
    """Topics whose records become events in the same way.

    Attributes:
        name: The name of the source, for messages.
        topics: Names of topics, or patterns of names in which `*` stands for any characters.
        format: `json`, or `avro` in the Confluent wire format.
        mapping: How a record becomes an event.
    """

    name: str
    topics: tuple[str, ...]
    format: str
    mapping: EventMapping

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(expression(self.topics))

    def has(self, topic: str) -> bool:
        """Return whether a topic belongs to this source."""
        return self._expression.fullmatch(topic) is not None


@dataclass(frozen=True, kw_only=True)
class EventSources:
    """The sources in their order: a topic belongs to the first one whose patterns match it.

    Attributes:
        bootstrap_servers: The brokers that have the topics; None: those of masscomm.
        registry_url: The registry that has the schemas of Avro records; None: that of masscomm.
        known_subject: A subject of the registry at `registry_url`: a registry without it is empty or the wrong one.
    """

    sources: tuple[EventSource, ...]
    bootstrap_servers: str | None = None
    registry_url: str | None = None
    known_subject: str | None = None

    @property
    def topics(self) -> list[str]:
        """The names and patterns of all sources."""
        return list(dict.fromkeys(pattern for source in self.sources for pattern in source.topics))

    def source_of(self, topic: str) -> EventSource | None:
        """Return the source that a topic belongs to; None if there is none."""
        return next((source for source in self.sources if source.has(topic)), None)


def expression(patterns: Iterable[str]) -> str:
    """Return the regular expression, for Python and Java, of the names that match one of the patterns."""
    return "^(" + "|".join(re.escape(each).replace(r"\*", ".*") for each in patterns) + ")$"


def read_event_sources(path: str | Path) -> EventSources:
    """Return the sources in a YAML file. Raises Stop with each problem of the file."""
    import yaml

    try:
        document = parse_yaml(Path(path).read_text())
    except (OSError, UnicodeError, yaml.YAMLError) as error:
        raise Stop(f"{path} cannot be read: {error}") from error
    try:
        return event_sources(document)
    except ValueError as error:
        raise Stop(f"{path}: {error}") from error


def event_sources(document: Any) -> EventSources:
    """Return the sources in the value of a YAML file.

    Raises:
        ValueError: A field is missing or invalid, or a pattern matches an internal topic.
    """
    fields = _fields(document, "the file", ("bootstrap_servers", "registry", "sources"))
    registry = _fields(fields.get("registry", {}), "registry", ("url", "known_subject"))
    if registry and registry.keys() != {"url", "known_subject"}:
        raise ValueError("registry: url and known_subject belong together")
    sources = fields.get("sources")
    if not isinstance(sources, list) or not sources:
        raise ValueError("sources must be a list with at least one source")
    return EventSources(
        sources=tuple(_source(each, f"sources[{number}]") for number, each in enumerate(sources)),
        bootstrap_servers=_text(fields, "bootstrap_servers", "the file"),
        registry_url=_text(registry, "url", "registry"),
        known_subject=_text(registry, "known_subject", "registry"),
    )


def _source(document: Any, place: str) -> EventSource:
    fields = _fields(document, place, ("name", "topics", "format", "mapping"))
    name = _text(fields, "name", place)
    if name is None:
        raise ValueError(f"{place}.name is missing")
    patterns = fields.get("topics")
    if not isinstance(patterns, list) or not patterns:
        raise ValueError(f"{place}.topics must be a list of names or patterns")
    for pattern in patterns:
        _check_pattern(pattern, f"{place}.topics")
    form = fields.get("format", JSON)
    if form not in (JSON, AVRO):
        raise ValueError(f"{place}.format must be {JSON} or {AVRO}, not {form!r}")
    return EventSource(
        name=name, topics=tuple(patterns), format=form, mapping=_mapping(fields.get("mapping"), f"{place}.mapping")
    )


def _mapping(document: Any, place: str) -> EventMapping:
    try:
        mapping = EventMapping.of(document)
    except InvalidMapping as error:
        raise ValueError(f"{place}: {error}") from error
    if "event_id" in mapping.fields:  # guard: own_topics.event_id
        raise ValueError(f"{place}: event_id is derived from the record's position, so that it cannot be mapped")
    return mapping


def _check_pattern(pattern: Any, place: str) -> None:
    if not isinstance(pattern, str) or not _PATTERN.fullmatch(pattern):
        raise ValueError(f"{place}: {pattern!r} is neither the name of a topic nor a pattern such as orders.*")
    for internal in internal_topics():
        if overlaps(pattern, internal):  # guard: own_topics.internal_topic
            raise ValueError(f"{place}: {pattern} includes {internal}, which is a topic of masscomm or Kafka itself")


def internal_topics() -> Iterator[str]:
    """Yield the names, or patterns of the names, of the topics of masscomm, Debezium, Kafka Connect and Kafka."""
    yield from (topic.name for topic in topics.chain_topics())
    yield f"{topics.cdc_prefix('*')}*"
    yield from _INTERNAL_PATTERNS


@lru_cache(maxsize=10_000)
def overlaps(one: str, other: str) -> bool:
    """Return whether a name exists that both patterns match. A name is a pattern that only this name matches."""
    if "*" not in one and "*" not in other:
        return one == other
    if not one or not other:
        return set(one + other) <= {"*"}
    if one[0] == "*":
        return overlaps(one[1:], other) or overlaps(one, other[1:])
    if other[0] == "*":
        return overlaps(other, one)
    return one[0] == other[0] and overlaps(one[1:], other[1:])


def _fields(document: Any, place: str, names: Iterable[str]) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise ValueError(f"{place} must be a mapping")  # noqa: TRY004 - the file is invalid
    if unknown := sorted(map(str, document.keys() - set(names))):
        raise ValueError(f"{place} has unknown fields: {', '.join(unknown)}")
    return document


def _text(fields: Mapping[str, Any], name: str, place: str) -> str | None:
    value = fields.get(name)
    if value is not None and (not isinstance(value, str) or not value):
        raise ValueError(f"{place}: {name} must be a text")
    return value
