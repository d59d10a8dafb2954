"""The controls of sends in DynamoDB, in the table of schemas/dynamodb/cancelled_sends.json.

A cancellation is an item of its own, in the form that earlier versions of the functions read: they take each item under
the key of a send for a cancellation. The other controls of a send are in a second item.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any

from masscomm.aws.dynamodb import ConditionFailed, answering, read_items, transact
from masscomm.aws.request import Limits
from masscomm.aws.table import TableAdapter
from masscomm.domain.send_controls import SendControl, SendKey
from masscomm.domain.time_limits import CANCELLATIONS_KEPT_S
from masscomm.errors import MasscommError, Retry
from masscomm.observability.unreadable_items import DAMAGE, UnreadableItem, described, report_unreadable
from masscomm.stores.send_controls import AcceptedSend, Cancellation, NamedSend, Part, over_rest
from masscomm.stores.transactions import write_all

_WHAT = "controls of sends"
# The attributes of SendControl, and of AcceptedSend, that an item may lack.
_TIMES = ("paused_at_ms", "resumed_at_ms", "send_at_ms")
_SEND_TIMES = ("send_at_ms", "expires_at_ms")
# The largest item of an accepted send, its names included.
_ACCEPTANCE_BYTES = 2_000


class DynamoDbSendControls(TableAdapter):
    """The store of controls in DynamoDB."""

    TABLE, SETTING = "cancelled_sends", "CANCELLED_SENDS_TABLE"
    LIMITS = Limits(connections=2, connect_s=1, read_s=2, attempts=2)

    def read(self, sends: Iterable[SendKey]) -> Mapping[SendKey, SendControl]:
        return self.read_with_registered(sends, ())[0]

    def read_with_registered(
        self, sends: Iterable[SendKey], send_ids: Iterable[str]
    ) -> tuple[Mapping[SendKey, SendControl], Mapping[str, AcceptedSend | UnreadableItem]]:
        asked = set(sends)
        valid = [send for send in asked if send.is_valid]  # guard: cancellations.hostile_send_id
        of_sends = {_accepted_id(send_id): send_id for send_id in send_ids}
        keys = chain(chain.from_iterable((send.text, _control_id(send)) for send in valid), of_sends)
        found = read_items(self._client, _WHAT, self._table, [{"id": {"S": id_}} for id_ in keys])
        items = {item["id"]["S"]: item for item in found}
        controls = {
            send: self._control(send, items.get(_control_id(send), {}), cancelled=send.text in items)
            if send.is_valid
            else SendControl(send=send)
            for send in asked
        }
        registered = {
            send_id: self._registered(send_id, items[id_]) for id_, send_id in of_sends.items() if id_ in items
        }
        return controls, registered

    def _control(self, send: SendKey, item: Mapping[str, Any], *, cancelled: bool) -> SendControl:
        """Return the control in an item, or one that says that it cannot be read."""
        try:
            return _control(send, item, cancelled=cancelled)
        except DAMAGE as error:  # guard: send_controls.damaged_item
            return SendControl(send=send, cancelled=cancelled, fault=self._report(item, error).error)

    def _registered(self, send_id: str, item: Mapping[str, Any]) -> AcceptedSend | UnreadableItem:
        try:
            return _accepted(send_id, item)
        except DAMAGE as error:  # guard: send_controls.damaged_send
            return self._report(item, error)

    def _report(self, item: Mapping[str, Any], error: Exception) -> UnreadableItem:
        unreadable = UnreadableItem(store=self._table, key={"id": item["id"]["S"]}, error=described(error))
        report_unreadable(unreadable)
        return unreadable

    def find(self, send: SendKey) -> Cancellation | None:
        item = self._get(send.text) if send.is_valid else None
        return None if item is None else _cancellation(item)

    def record(self, cancellation: Cancellation) -> Cancellation:
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        "id": {"S": cancellation.send.text},
                        "club_id": {"N": str(cancellation.send.club_id)},
                        "send_id": {"S": cancellation.send.send_id},
                        "requested_at_ms": {"N": str(cancellation.requested_at_ms)},
                        "published_before": {"N": str(cancellation.published_before)},
                        "expires_at": {"N": str(cancellation.expires_at)},
                    },
                    ConditionExpression="attribute_not_exists(id)",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except ConditionFailed as failed:
            return _cancellation(failed.item)
        return cancellation

    def replace(self, control: SendControl, *, now_ms: int) -> bool:
        kept_from_ms = max(now_ms, control.send_at_ms or 0)
        times = {name: {"N": str(value)} for name in _TIMES if (value := getattr(control, name)) is not None}
        # guard: send_controls.previous_revision
        condition = "attribute_not_exists(id)" if control.revision == 1 else "revision = :previous"
        values = {} if control.revision == 1 else {":previous": {"N": str(control.revision - 1)}}
        try:
            with answering(_WHAT):
                self._client.put_item(
                    TableName=self._table,
                    Item={
                        "id": {"S": _control_id(control.send)},
                        **times,
                        "revision": {"N": str(control.revision)},
                        "expires_at": {"N": str(kept_from_ms // 1000 + CANCELLATIONS_KEPT_S)},
                    },
                    ConditionExpression=condition,
                    **({"ExpressionAttributeValues": values} if values else {}),
                )
        except ConditionFailed:
            return False
        return True

    def accept(self, sends: Sequence[AcceptedSend]) -> None:
        puts = {each.send.send_id: self._acceptance(each) for each in sends}

        def together(send_ids: Sequence[str]) -> Mapping[str, Callable[[], None]]:
            cancelled = transact(self._client, _WHAT, [puts[send_id] for send_id in send_ids])
            if not cancelled:
                return dict.fromkeys(send_ids, _nothing)
            # Without the stored item, the transaction was cancelled by a conflict, and the send may not be recorded.
            return {
                send_ids[index]: _nothing if stored else partial(alone, send_ids[index])
                for index, stored in cancelled.items()
            }

        def alone(send_id: str) -> None:
            with suppress(ConditionFailed), answering(_WHAT):
                self._client.put_item(**puts[send_id])

        sizes = dict.fromkeys(puts, _ACCEPTANCE_BYTES)
        for answer in write_all(sizes, transact=together, alone=alone).values():
            if isinstance(answer, MasscommError):
                raise answer

    def _acceptance(self, accepted: AcceptedSend) -> dict[str, Any]:
        """Return the parameters of the action that records an accepted send."""
        times = {name: {"N": str(value)} for name in _SEND_TIMES if (value := getattr(accepted, name)) is not None}
        return {
            "TableName": self._table,
            "Item": {
                "id": {"S": _accepted_id(accepted.send.send_id)},
                "club_id": {"N": str(accepted.send.club_id)},
                "accepted_at_ms": {"N": str(accepted.accepted_at_ms)},
                **times,
                **({} if accepted.type is None else {"type": {"S": accepted.type}}),
                **({} if accepted.users is None else {"users": {"N": str(accepted.users)}}),
                **({"channels": {"S": ",".join(accepted.channels)}} if accepted.channels else {}),
                **({} if accepted.reference is None else {"reference": {"S": accepted.reference}}),
                **({} if accepted.send_at_local is None else {"send_at_local": {"S": accepted.send_at_local}}),
                **({"is_test": {"BOOL": True}} if accepted.is_test else {}),
                **({} if accepted.content is None else {"send_content": {"S": accepted.content}}),
                **({"by_kafka": {"BOOL": True}} if accepted.by_kafka else {}),
                **_named_attributes(accepted.named),
                "expires_at": {"N": str(accepted.expires_at)},
            },
            "ConditionExpression": "attribute_not_exists(id)",
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def accepted(self, send_id: str) -> AcceptedSend | None:
        return over_rest(self.registered(send_id))

    def registered(self, send_id: str) -> AcceptedSend | None:
        if not SendKey(0, send_id).is_valid or (item := self._get(_accepted_id(send_id))) is None:
            return None
        return _accepted(send_id, item)

    def register(self, send: AcceptedSend) -> AcceptedSend:
        try:
            with answering(_WHAT):
                self._client.put_item(**self._acceptance(send))
        except ConditionFailed as failed:
            return _accepted(send.send.send_id, failed.item)
        return send

    def add_part(self, send: AcceptedSend, index: int, part: Part, *, users: int | None) -> bool:
        if send.named is None:
            return False
        parts = {**send.named.parts, index: part}
        counted = {} if users is None else {":users": {"N": str(users)}}
        try:
            with answering(_WHAT):
                self._client.update_item(
                    TableName=self._table,
                    Key={"id": {"S": _accepted_id(send.send.send_id)}},
                    UpdateExpression="SET parts = :parts" + (", #users = :users" if counted else ""),
                    ConditionExpression="parts = :previous",  # guard: named_sends.concurrent_parts
                    ExpressionAttributeValues={
                        ":parts": {"S": _parts_text(parts)},
                        ":previous": {"S": _parts_text(send.named.parts)},
                        **counted,
                    },
                    **({"ExpressionAttributeNames": {"#users": "users"}} if counted else {}),
                )
        except ConditionFailed:
            return False
        return True

    def _get(self, id_: str) -> Mapping[str, Any] | None:
        with answering(_WHAT):
            item: Mapping[str, Any] | None = self._client.get_item(
                TableName=self._table, Key={"id": {"S": id_}}, ConsistentRead=True
            ).get("Item")
        return item


def _nothing() -> None:
    """Return the answer about a recorded send."""


def _accepted(send_id: str, item: Mapping[str, Any]) -> AcceptedSend:
    """Return the accepted send in an item. Raises Retry if the item is malformed."""
    try:
        return AcceptedSend(
            send=SendKey(int(item["club_id"]["N"]), send_id),
            accepted_at_ms=int(item["accepted_at_ms"]["N"]),
            **{name: int(item[name]["N"]) for name in _SEND_TIMES if name in item},
            type=item["type"]["S"] if "type" in item else None,
            users=int(item["users"]["N"]) if "users" in item else None,
            channels=tuple(item["channels"]["S"].split(",")) if "channels" in item else (),
            reference=item["reference"]["S"] if "reference" in item else None,
            send_at_local=item["send_at_local"]["S"] if "send_at_local" in item else None,
            is_test="is_test" in item,
            content=item["send_content"]["S"] if "send_content" in item else None,
            by_kafka="by_kafka" in item,
            named=_named(item) if "parts" in item else None,
        )
    except (KeyError, ValueError, TypeError) as error:
        raise Retry(f"the item of an accepted send is malformed: {error!r}") from error


def _named_attributes(named: NamedSend | None) -> dict[str, Any]:
    if named is None:
        return {}
    return {
        "chunk_size": {"N": str(named.chunk_size)},
        "part_count": {"N": str(named.part_count)},
        "parts": {"S": _parts_text(named.parts)},
    }


def _named(item: Mapping[str, Any]) -> NamedSend:
    return NamedSend(
        chunk_size=int(item["chunk_size"]["N"]),
        part_count=int(item["part_count"]["N"]),
        parts={int(index): Part(*part[: len(Part._fields)]) for index, part in json.loads(item["parts"]["S"]).items()},
    )


def _parts_text(parts: Mapping[int, Part]) -> str:
    """Return the parts as text: equal parts are equal texts."""
    return json.dumps({str(index): list(parts[index]) for index in sorted(parts)})


def _control_id(send: SendKey) -> str:
    return f"{send.text}#control"  # No send's id contains the sign #.


def _accepted_id(send_id: str) -> str:
    return f"accepted#{send_id}"


def _control(send: SendKey, item: Mapping[str, Any], *, cancelled: bool) -> SendControl:
    """Return the control in an item, which is empty if there is none. Raises an error of DAMAGE."""
    times: dict[str, Any] = {name: int(item[name]["N"]) for name in _TIMES if name in item}
    return SendControl(send=send, cancelled=cancelled, revision=int(item["revision"]["N"]) if item else 0, **times)


def _cancellation(item: Mapping[str, Any]) -> Cancellation:
    """Return the cancellation in an item. Raises Retry if the item is malformed."""
    try:
        return Cancellation(
            send=SendKey(int(item["club_id"]["N"]), item["send_id"]["S"]),
            requested_at_ms=int(item["requested_at_ms"]["N"]),
            published_before=int(item["published_before"]["N"]),
        )
    except (KeyError, ValueError) as error:
        raise Retry(f"the item of a cancelled send is malformed: {error!r}") from error
