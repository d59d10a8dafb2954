"""Schedules in DynamoDB, in the table of schemas/dynamodb/categories.json: the functions that use them read it for
categories and saved audiences, too.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, key_of, query_items
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.notification_rules import Owner
from masscomm.domain.recurrences import LocalTime
from masscomm.domain.schedules import CatchUp, Occurrence, OccurrenceState, PauseReason, Schedule
from masscomm.domain.time_limits import OCCURRENCES_KEPT_S
from masscomm.errors import DeadLetter
from masscomm.integers import integer
from masscomm.observability.unreadable_items import DAMAGE, read_each

_WHAT = "schedules"
# The items in a page of the history.
_PAGE = 100


class DynamoDbSchedules(TableAdapter):
    """The store of schedules in DynamoDB."""

    TABLE, SETTING = "categories", "CATEGORIES_TABLE"
    LIMITS = Limits(connections=4, connect_s=1, read_s=2, attempts=3)

    def of_club(self, club_id: int) -> Sequence[Schedule]:
        items = query_items(self._client, _WHAT, self._table, {"part": {"S": _part(club_id)}})
        return list(
            read_each(items, lambda item: _schedule(club_id, item), store=self._table, key=key_of("part", "name"))
        )

    def find(self, club_id: int, name: str) -> Schedule | None:
        with answering(_WHAT):
            answer = self._client.get_item(TableName=self._table, Key=_key(club_id, name), ConsistentRead=True)
        with _damage():
            return _schedule(club_id, answer["Item"]) if "Item" in answer else None

    def put(self, schedule: Schedule, before: Schedule | None) -> bool:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(part)"}
        if before is not None:  # guard: schedules.changed_once
            condition = {
                "ConditionExpression": "revision = :before",
                "ExpressionAttributeValues": {":before": {"S": before.revision}},
            }
        return self._write(lambda: self._client.put_item(TableName=self._table, Item=item_of(schedule), **condition))

    def advance(self, schedule: Schedule, following: LocalTime | None) -> None:
        request: dict[str, Any] = {
            "UpdateExpression": "REMOVE next_local, next_at_ms",
            "ConditionExpression": "revision = :revision AND attribute_exists(next_at_ms)",
            "ExpressionAttributeValues": {":revision": {"S": schedule.revision}},
        }
        if following is not None:
            request["UpdateExpression"] = "SET next_local = :local, next_at_ms = :at"
            request["ConditionExpression"] += " AND next_at_ms <= :at"
            request["ExpressionAttributeValues"] |= {
                ":local": {"S": following.text},
                ":at": {"N": str(following.at_ms)},
            }
        key = _key(schedule.club_id, schedule.name)
        self._write(lambda: self._client.update_item(TableName=self._table, Key=key, **request))

    def delete(self, club_id: int, name: str) -> bool:
        with answering(_WHAT):
            answer = self._client.delete_item(TableName=self._table, Key=_key(club_id, name), ReturnValues="ALL_OLD")
        return bool(answer.get("Attributes"))

    def record(self, occurrence: Occurrence) -> Occurrence:
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item=occurrence_item(occurrence),
                    ConditionExpression="attribute_not_exists(part)",  # guard: schedules.recorded_once
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as refused:
            with _damage():
                return _occurrence(occurrence.schedule_id, refused.item)
        return occurrence

    def complete(self, occurrence: Occurrence) -> None:
        self._write(
            lambda: self._client.update_item(
                TableName=self._table,
                Key=_occurrence_key(occurrence.schedule_id, occurrence.local_time),
                UpdateExpression="SET #state = :sent REMOVE content",
                # It may have expired.
                ConditionExpression="attribute_exists(part)",
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={":sent": {"S": OccurrenceState.SENT}},
            )
        )

    def started(self, schedule_id: str, local_time: str) -> Sequence[Occurrence]:
        values = {":part": {"S": _occurrences_part(schedule_id)}, ":local": {"S": local_time}}
        found = list(self._occurrences("part = :part AND #name >= :local", values))
        with _damage():
            every = [_occurrence(schedule_id, item) for item in found]
        return [each for each in every if each.state is OccurrenceState.STARTED]

    def history(self, schedule_id: str, limit: int) -> Sequence[Occurrence]:
        values = {":part": {"S": _occurrences_part(schedule_id)}}
        items = islice(self._occurrences("part = :part", values, ScanIndexForward=False), limit)
        return list(
            read_each(items, lambda item: _occurrence(schedule_id, item), store=self._table, key=key_of("part", "name"))
        )

    def _occurrences(self, condition: str, values: Mapping[str, Any], **options: Any) -> Iterator[Mapping[str, Any]]:
        names = {"#name": "name"} if "#name" in condition else {}
        with answering(_WHAT):
            for page in self._client.get_paginator("query").paginate(
                TableName=self._table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                **({"ExpressionAttributeNames": names} if names else {}),
                ConsistentRead=True,
                Limit=_PAGE,
                **options,
            ):
                yield from page["Items"]

    @staticmethod
    def _write(write: Any) -> bool:
        """Send a conditional write; return whether its condition held."""
        with suppress(ConditionFailed), answering(_WHAT):
            write()
            return True
        return False


def _part(club_id: int) -> str:
    return f"schedules#{club_id}"


def _occurrences_part(schedule_id: str) -> str:
    return f"occurrences#{schedule_id}"


def _key(club_id: int, name: str) -> dict[str, Any]:
    return {"part": {"S": _part(club_id)}, "name": {"S": name}}


def _occurrence_key(schedule_id: str, local_time: str) -> dict[str, Any]:
    return {"part": {"S": _occurrences_part(schedule_id)}, "name": {"S": local_time}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def item_of(schedule: Schedule) -> dict[str, Any]:
    """Return the item of a schedule."""
    texts = {
        "schedule_id": schedule.id,
        "revision": schedule.revision,
        "rule": schedule.rule,
        "time_zone": schedule.time_zone,
        "starts_at_local": schedule.starts_at_local,
        "catch_up": schedule.catch_up,
        "send": _json(schedule.send),
        "owner": schedule.owner.principal,
        "owner_context": _json(schedule.owner.context),
        "next_local": None if schedule.next is None else schedule.next.text,
        "paused": schedule.paused,
    }
    numbers = {
        "changed_at_ms": schedule.changed_at_ms,
        "expires_after_minutes": schedule.expires_after_minutes,
        "next_at_ms": None if schedule.next is None else schedule.next.at_ms,
        "paused_at_ms": schedule.paused_at_ms,
    }
    return {
        **_key(schedule.club_id, schedule.name),
        **{name: {"S": str(text)} for name, text in texts.items() if text is not None},
        **{name: {"N": str(number)} for name, number in numbers.items() if number is not None},
    }


def occurrence_item(occurrence: Occurrence) -> dict[str, Any]:
    """Return the item of an occurrence."""
    return {
        **_occurrence_key(occurrence.schedule_id, occurrence.local_time),
        "club_id": {"N": str(occurrence.club_id)},
        "at_ms": {"N": str(occurrence.at_ms)},
        "recorded_at_ms": {"N": str(occurrence.recorded_at_ms)},
        "state": {"S": occurrence.state},
        "expires_at": {"N": str(occurrence.recorded_at_ms // 1000 + OCCURRENCES_KEPT_S)},
        **({} if occurrence.reason is None else {"reason": {"S": occurrence.reason}}),
        **({} if occurrence.content is None else {"content": {"S": _json(occurrence.content)}}),
    }


def _schedule(club_id: int, item: Mapping[str, Any]) -> Schedule:
    """Return the schedule in an item. Raises an error of DAMAGE if the item is malformed."""
    following = LocalTime(item["next_local"]["S"], integer(item["next_at_ms"]["N"])) if "next_at_ms" in item else None
    return Schedule(
        club_id=club_id,
        name=item["name"]["S"],
        id=item["schedule_id"]["S"],
        revision=item["revision"]["S"],
        rule=item["rule"]["S"],
        time_zone=item["time_zone"]["S"],
        starts_at_local=item["starts_at_local"]["S"],
        catch_up=CatchUp(item["catch_up"]["S"]),
        expires_after_minutes=_number(item, "expires_after_minutes"),
        send=json.loads(item["send"]["S"]),
        owner=Owner(principal=item["owner"]["S"], context=json.loads(item["owner_context"]["S"])),
        changed_at_ms=integer(item["changed_at_ms"]["N"]),
        next=following,
        paused=PauseReason(item["paused"]["S"]) if "paused" in item else None,
        paused_at_ms=_number(item, "paused_at_ms"),
    )


def _occurrence(schedule_id: str, item: Mapping[str, Any]) -> Occurrence:
    """Return the occurrence in an item. Raises an error of DAMAGE if the item is malformed."""
    return Occurrence(
        schedule_id=schedule_id,
        club_id=integer(item["club_id"]["N"]),
        local_time=item["name"]["S"],
        at_ms=integer(item["at_ms"]["N"]),
        state=OccurrenceState(item["state"]["S"]),
        recorded_at_ms=integer(item["recorded_at_ms"]["N"]),
        reason=item["reason"]["S"] if "reason" in item else None,
        content=json.loads(item["content"]["S"]) if "content" in item else None,
    )


@contextmanager
def _damage() -> Iterator[None]:
    """Convert the error of a malformed item to DeadLetter: a record about it would fail in each attempt."""
    try:
        yield
    except DAMAGE as error:
        raise DeadLetter("invalid", f"the item of a schedule is malformed: {error!r}") from error


def _number(item: Mapping[str, Any], name: str) -> int | None:
    return integer(item[name]["N"]) if name in item else None
