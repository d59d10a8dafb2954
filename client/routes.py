"""The routes of the API: each function returns the call of one route, typed with the body of its response."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

from .calls import KEY, Call, Listing

if TYPE_CHECKING:
    from .types import (
        AcceptedBody,
        BatchBody,
        CancelBody,
        ChangeWebhookRequest,
        CountBody,
        DeadLetterBody,
        DeadLetterRow,
        DeletedWebhookBody,
        DeliveryBody,
        DisabledCountsBody,
        DisabledDeviceRow,
        DiscardedBody,
        DryRunBody,
        EnabledDeviceBody,
        HealthBody,
        ListedSend,
        MetricsBody,
        NewWebhookBody,
        NotificationBody,
        PauseBody,
        PreferencesBody,
        PreviewBody,
        RecipientBody,
        RemovedSuppressionBody,
        ReplayedBody,
        RescheduleBody,
        ResumeBody,
        SendBody,
        SmallSend,
        SuppressionRow,
        TemplateBody,
        UserNotification,
        WebhookBody,
    )


def send(fields: Mapping[str, Any], key: str | None) -> Call[AcceptedBody]:
    return _keyed("/v1/sends", fields, key)


def dry_run(fields: Mapping[str, Any]) -> Call[DryRunBody]:
    return Call("POST", "/v1/dry-runs", body=dict(fields))


def send_batch(sends: Iterable[SmallSend], key: str | None) -> Call[BatchBody]:
    return _keyed("/v1/sends/batch", {"sends": list(sends)}, key)


def count_audience(fields: Mapping[str, Any]) -> Call[CountBody]:
    return Call("POST", "/v1/audiences/count", body=dict(fields))


def get_send(send_id: str) -> Call[SendBody]:
    return Call("GET", _send_path(send_id))


def cancel(send_id: str) -> Call[CancelBody]:
    return Call("POST", _send_path(send_id, "/cancel"))


def pause(send_id: str) -> Call[PauseBody]:
    return Call("POST", _send_path(send_id, "/pause"))


def resume(send_id: str) -> Call[ResumeBody]:
    return Call("POST", _send_path(send_id, "/resume"))


def reschedule(send_id: str, send_at: str) -> Call[RescheduleBody]:
    return Call("PATCH", _send_path(send_id), body={"send_at": send_at})


def notification(name: str) -> Call[NotificationBody]:
    return Call("GET", f"/v1/notifications/{quote(name, safe='')}")


def metrics(query: Mapping[str, Any]) -> Call[MetricsBody]:
    return Call("GET", "/v1/metrics", query)


def sends(filters: Mapping[str, Any]) -> Listing[ListedSend]:
    return Listing("/v1/sends", filters)


def recipients(send_id: str, filters: Mapping[str, Any]) -> Listing[RecipientBody]:
    return Listing(_send_path(send_id, "/recipients"), filters)


def user_notifications(user_id: int, filters: Mapping[str, Any]) -> Listing[UserNotification]:
    return Listing(f"/v1/users/{user_id}/notifications", filters)


def preferences(user_id: int) -> Call[PreferencesBody]:
    return Call("GET", f"/v1/users/{user_id}/preferences")


def set_preferences(user_id: int, rules: Mapping[str, Any]) -> Call[PreferencesBody]:
    return Call("PUT", f"/v1/users/{user_id}/preferences", body=dict(rules))


def preview(fields: Mapping[str, Any]) -> Call[PreviewBody]:
    return Call("POST", "/v1/previews", body=fields)


def templates(filters: Mapping[str, Any]) -> Listing[TemplateBody]:
    return Listing("/v1/templates", filters)


def health() -> Call[HealthBody]:
    return Call("GET", "/v1/health")


def dead_letters(filters: Mapping[str, Any]) -> Listing[DeadLetterRow]:
    return Listing("/v1/dead-letters", filters)


def dead_letter(position: str) -> Call[DeadLetterBody]:
    return Call("GET", _letter_path(position))


def replay_dead_letter(position: str, key: str | None) -> Call[ReplayedBody]:
    return _keyed(_letter_path(position, "/replay"), {}, key)


def discard_dead_letter(position: str, reason: str, key: str | None) -> Call[DiscardedBody]:
    return _keyed(_letter_path(position, "/discard"), {"reason": reason}, key)


def suppressions(filters: Mapping[str, Any]) -> Listing[SuppressionRow]:
    return Listing("/v1/suppressions", filters)


def remove_suppression(suppression: str) -> Call[RemovedSuppressionBody]:
    # Whether a suppression for every club remains is unknown then; such an address gets no e-mail.
    removed: RemovedSuppressionBody = {"id": suppression, "status": "removed", "remains_for_every_club": False}
    return Call("DELETE", f"/v1/suppressions/{quote(suppression, safe='')}", removed=removed)


def devices(filters: Mapping[str, Any]) -> Listing[DisabledDeviceRow]:
    return Listing("/v1/devices", filters)


def device_counts(filters: Mapping[str, Any]) -> Call[DisabledCountsBody]:
    return Call("GET", "/v1/devices/counts", filters)


def enable_device(device_id: int) -> Call[EnabledDeviceBody]:
    return Call("POST", f"/v1/devices/{device_id}/enable", removed={"device_id": device_id, "status": "requested"})


def webhooks(filters: Mapping[str, Any]) -> Listing[WebhookBody]:
    return Listing("/v1/webhooks", filters)


def create_webhook(fields: Mapping[str, Any], key: str | None) -> Call[NewWebhookBody]:
    return _keyed("/v1/webhooks", fields, key)


def webhook(endpoint_id: str) -> Call[WebhookBody]:
    return Call("GET", _webhook_path(endpoint_id))


def change_webhook(endpoint_id: str, fields: ChangeWebhookRequest) -> Call[WebhookBody]:
    return Call("PATCH", _webhook_path(endpoint_id), body=dict(fields))


def delete_webhook(endpoint_id: str) -> Call[DeletedWebhookBody]:
    return Call("DELETE", _webhook_path(endpoint_id), removed={"id": endpoint_id, "status": "deleted"})


def rotate_webhook(endpoint_id: str, key: str | None) -> Call[NewWebhookBody]:
    return _keyed(_webhook_path(endpoint_id, "/rotate"), {}, key)


def test_webhook(endpoint_id: str, key: str | None) -> Call[DeliveryBody]:
    return _keyed(_webhook_path(endpoint_id, "/test"), {}, key)


def webhook_deliveries(endpoint_id: str, filters: Mapping[str, Any]) -> Listing[DeliveryBody]:
    return Listing(_webhook_path(endpoint_id, "/deliveries"), filters)


def resend_webhook(endpoint_id: str, delivery_id: str, key: str | None) -> Call[DeliveryBody]:
    return _keyed(_webhook_path(endpoint_id, f"/deliveries/{quote(delivery_id, safe='')}/resend"), {}, key)


def _keyed[T](path: str, body: Mapping[str, Any], key: str | None) -> Call[T]:
    """Return a call with an idempotency key of its own unless one is given."""
    return Call("POST", path, body=dict(body), headers={KEY: key or str(uuid4())})


def _send_path(send_id: str, action: str = "") -> str:
    return f"/v1/sends/{quote(send_id, safe='')}{action}"


def _webhook_path(endpoint_id: str, action: str = "") -> str:
    return f"/v1/webhooks/{quote(endpoint_id, safe='')}{action}"


def _letter_path(position: str, action: str = "") -> str:
    return f"/v1/dead-letters/{quote(position, safe='')}{action}"
