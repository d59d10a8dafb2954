"""Defines the settings of the job, environment variables as those of the metrics job."""

from dataclasses import dataclass

from spark_metrics.common.settings import SessionSettings


@dataclass(frozen=True, kw_only=True)
class Settings(SessionSettings):
    """The settings of the job.

    Attributes:
        event_sources: The path of the YAML file with the topics and their mappings, in SPARK_EVENT_SOURCES.
    """

    event_sources: str
    # A kill repeats at most this many events.
    max_offsets_per_trigger: int = 20_000
