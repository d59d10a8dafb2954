"""The delayed record of a schedule's next occurrence. There is one for each revision of a schedule that is active."""

import json
from dataclasses import asdict, dataclass

from masscomm.domain.delays import SCHEDULE
from masscomm.domain.ids import envelope_id, recurring_send_id
from masscomm.domain.known_fields import known_fields
from masscomm.domain.limits import CHUNK_SIZE
from masscomm.domain.records import AudienceRequested
from masscomm.domain.recurrences import LocalTime
from masscomm.domain.schedules import Schedule
from masscomm.errors import DeadLetter
from masscomm.json_reader import InvalidJson, read_json
from masscomm.kafka import topics
from masscomm.kafka.avro import Codec
from masscomm.stores.delayed_records.port import DelayedRecord


@dataclass(frozen=True, kw_only=True)
class ScheduledTime:
    """The occurrence in a record: the schedule by its name, its id and revision, and the local time."""

    name: str
    id: str
    revision: str
    local_time: str


def delayed_occurrence(codec: Codec, schedule: Schedule, time: LocalTime, not_before_ms: int = 0) -> DelayedRecord:
    """Return the record that begins the occurrence of a schedule at a time. It is the same for each repetition. Raises
    Retry or Stop.
    """
    scheduled = ScheduledTime(name=schedule.name, id=schedule.id, revision=schedule.revision, local_time=time.text)
    send_id = recurring_send_id(schedule.id, time.text)
    record = AudienceRequested(
        send_id=send_id,
        club_id=schedule.club_id,
        timestamp=time.at_ms,
        chunk_size=CHUNK_SIZE,
        audience="",
        send="",
        schedule=json.dumps(asdict(scheduled)),
    )
    value = codec.encode(topics.AUDIENCE, "AudienceRequested", record.to_avro())
    return DelayedRecord(
        id=envelope_id(send_id, value),
        due_ms=max(time.at_ms, not_before_ms),
        topic=topics.AUDIENCE,
        value=value,
        delay_reason=SCHEDULE,
        record_key=send_id,
    )


def scheduled_time(text: str) -> ScheduledTime:
    """Return the occurrence in the field `schedule` of a record. Raises DeadLetter if it is malformed."""
    try:
        found = ScheduledTime(**known_fields(ScheduledTime, read_json(text)))
    except (InvalidJson, TypeError, AttributeError) as error:
        raise DeadLetter("invalid", f"the occurrence of a schedule is malformed: {error!r}") from error
    if not all(isinstance(value, str) for value in asdict(found).values()):
        raise DeadLetter("invalid", "the occurrence of a schedule has a value that is no text")
    return found
