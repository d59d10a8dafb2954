"""The client for synchronous code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self, Unpack

import httpx

from . import routes
from .calls import UNKNOWN_S, Call, Listing, Pause, execute, key_headers, may_become_known
from .errors import ApiError
from .types import (
    AcceptedBody,
    BatchBody,
    CancelBody,
    ChangeWebhookRequest,
    CountBody,
    CountRequest,
    CreateWebhookRequest,
    DeadLetterBody,
    DeadLetterRow,
    DeadLettersFilters,
    DeletedWebhookBody,
    DeliveryBody,
    DeviceCountsFilters,
    DevicesFilters,
    DisabledCountsBody,
    DisabledDeviceRow,
    DiscardedBody,
    DryRunBody,
    EnabledDeviceBody,
    HealthBody,
    ListedSend,
    MetricsBody,
    MetricsFilters,
    NewWebhookBody,
    NotificationBody,
    PauseBody,
    PreferencesBody,
    PreferencesRequest,
    PreviewBody,
    PreviewRequest,
    RecipientBody,
    RecipientsFilters,
    RemovedSuppressionBody,
    ReplayedBody,
    RescheduleBody,
    ResumeBody,
    SendBody,
    SendRequest,
    SendsFilters,
    SmallSend,
    SuppressionRow,
    SuppressionsFilters,
    TemplateBody,
    TemplatesFilters,
    UserNotification,
    UserNotificationsFilters,
    WebhookBody,
    WebhookDeliveriesFilters,
    WebhooksFilters,
)


class Client:
    """A client of the API.

    Args:
        url: The base URL.
        key: The API key; None sends none.
        attempts: The maximum number of attempts of each request.
        timeout_s: The seconds that one attempt may take.
        transport: A transport of httpx, for tests.
        sleep: The function that waits between two attempts.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None,
        attempts: int = 4,
        timeout_s: float = 30,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._http = httpx.Client(
            base_url=url, headers=key_headers(key), timeout=timeout_s, trust_env=False, transport=transport
        )
        self._attempts = attempts
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def send(self, *, idempotency_key: str | None = None, **fields: Unpack[SendRequest]) -> AcceptedBody:
        """Request a send. Without a key, one is made for the attempts of this call."""
        return self._execute(routes.send(fields, idempotency_key))

    def dry_run(self, **fields: Unpack[SendRequest]) -> DryRunBody:
        """Return what would become of a send, by channel and reason, with samples of its messages."""
        return self._execute(routes.dry_run(fields))

    def send_batch(self, sends: Iterable[SmallSend], *, idempotency_key: str | None = None) -> BatchBody:
        """Request up to 1,000 small sends, with a result for each."""
        return self._execute(routes.send_batch(sends, idempotency_key))

    def count_audience(self, **fields: Unpack[CountRequest]) -> CountBody:
        """Return the number of users in an audience, and by channel those that it can reach."""
        return self._execute(routes.count_audience(fields))

    def get_send(self, send_id: str) -> SendBody:
        """Return a send with its notifications by status. A send by Kafka is a 404 until it is counted."""
        return self._execute(routes.get_send(send_id))

    def cancel(self, send_id: str) -> CancelBody:
        """Cancel the notifications of a send that are not published yet."""
        return self._execute(routes.cancel(send_id))

    def pause(self, send_id: str) -> PauseBody:
        """Hold the notifications of a send that are not published yet, until it is resumed or cancelled."""
        return self._execute(routes.pause(send_id))

    def resume(self, send_id: str) -> ResumeBody:
        """Continue a paused send."""
        return self._execute(routes.resume(send_id))

    def reschedule(self, send_id: str, send_at: str) -> RescheduleBody:
        """Move a scheduled send to another time, such as 2026-11-24T18:00:00+01:00."""
        return self._execute(routes.reschedule(send_id, send_at))

    def sends(self, **filters: Unpack[SendsFilters]) -> Iterator[ListedSend]:
        """Yield the sends of the caller's clubs, the latest first, from all pages."""
        return self._rows(routes.sends(filters))

    def recipients(self, send_id: str, **filters: Unpack[RecipientsFilters]) -> Iterator[RecipientBody]:
        """Yield the notifications of a send with their statuses, from all pages. It needs the log of recipients."""
        return self._rows(routes.recipients(send_id, filters))

    def notification(self, name: str) -> NotificationBody:
        """Return the timeline of a notification; a row of `recipients` has its name."""
        return self._execute(routes.notification(name))

    def preview(self, **fields: Unpack[PreviewRequest]) -> PreviewBody:
        """Render messages without sending them, for a user or for given values."""
        return self._execute(routes.preview(fields))

    def templates(self, **filters: Unpack[TemplatesFilters]) -> Iterator[TemplateBody]:
        """Yield the templates of the caller's clubs and those for every club, from all pages."""
        return self._rows(routes.templates(filters))

    def user_notifications(
        self, user_id: int, **filters: Unpack[UserNotificationsFilters]
    ) -> Iterator[UserNotification]:
        """Yield a user's notifications, the latest first, from all pages."""
        return self._rows(routes.user_notifications(user_id, filters))

    def preferences(self, user_id: int) -> PreferencesBody:
        """Return a user's preferences, as they apply now."""
        return self._execute(routes.preferences(user_id))

    def set_preferences(self, user_id: int, **rules: Unpack[PreferencesRequest]) -> PreferencesBody:
        """Set rules for channels and categories. Other rules stay as they are."""
        return self._execute(routes.set_preferences(user_id, rules))

    def metrics(self, **query: Unpack[MetricsFilters]) -> MetricsBody:
        """Return one page of counts by bucket."""
        return self._execute(routes.metrics(query))

    def health(self) -> HealthBody:
        """Return the lag of each function, the staleness of the directory and the number of open dead letters."""
        return self._execute(routes.health())

    def dead_letters(self, **filters: Unpack[DeadLettersFilters]) -> Iterator[DeadLetterRow]:
        """Yield the records that could not be processed, the latest first, from all pages."""
        return self._rows(routes.dead_letters(filters))

    def dead_letter(self, position: str) -> DeadLetterBody:
        """Return a dead letter with its record."""
        return self._execute(routes.dead_letter(position))

    def replay_dead_letter(self, position: str, *, idempotency_key: str | None = None) -> ReplayedBody:
        """Produce a dead letter to its source topic, once. A letter that was replayed before is a 409."""
        return self._execute(routes.replay_dead_letter(position, idempotency_key))

    def discard_dead_letter(self, position: str, reason: str, *, idempotency_key: str | None = None) -> DiscardedBody:
        """Close a dead letter without a replay."""
        return self._execute(routes.discard_dead_letter(position, reason, idempotency_key))

    def suppressions(self, **filters: Unpack[SuppressionsFilters]) -> Iterator[SuppressionRow]:
        """Yield the addresses to which no e-mail is sent, the latest first, from all pages."""
        return self._rows(routes.suppressions(filters))

    def remove_suppression(self, suppression: str) -> RemovedSuppressionBody:
        """Remove a suppression by its id, so that the address gets e-mail again."""
        return self._execute(routes.remove_suppression(suppression))

    def devices(self, **filters: Unpack[DevicesFilters]) -> Iterator[DisabledDeviceRow]:
        """Yield the devices to which nothing is pushed, those disabled last first, from all pages."""
        return self._rows(routes.devices(filters))

    def device_counts(self, **filters: Unpack[DeviceCountsFilters]) -> DisabledCountsBody:
        """Return the numbers of disabled devices by club and reason."""
        return self._execute(routes.device_counts(filters))

    def enable_device(self, device_id: int) -> EnabledDeviceBody:
        """Let a disabled device's token be registered again."""
        return self._execute(routes.enable_device(device_id))

    def webhooks(self, **filters: Unpack[WebhooksFilters]) -> Iterator[WebhookBody]:
        """Yield the webhook endpoints of the caller's clubs. An operator, who sees every club, names them."""
        return self._rows(routes.webhooks(filters))

    def create_webhook(
        self, *, idempotency_key: str | None = None, **fields: Unpack[CreateWebhookRequest]
    ) -> NewWebhookBody:
        """Create a webhook endpoint. Only this response has its secret. Without a key, one is made for the attempts of
        this call.
        """
        return self._execute(routes.create_webhook(fields, idempotency_key))

    def webhook(self, endpoint_id: str) -> WebhookBody:
        """Return a webhook endpoint."""
        return self._execute(routes.webhook(endpoint_id))

    def change_webhook(self, endpoint_id: str, **fields: Unpack[ChangeWebhookRequest]) -> WebhookBody:
        """Change, disable or enable a webhook endpoint."""
        return self._execute(routes.change_webhook(endpoint_id, fields))

    def delete_webhook(self, endpoint_id: str) -> DeletedWebhookBody:
        """Delete a webhook endpoint."""
        return self._execute(routes.delete_webhook(endpoint_id))

    def rotate_webhook(self, endpoint_id: str, *, idempotency_key: str | None = None) -> NewWebhookBody:
        """Give a webhook endpoint a new secret; the previous one also signs for 24 hours."""
        return self._execute(routes.rotate_webhook(endpoint_id, idempotency_key))

    def test_webhook(self, endpoint_id: str, *, idempotency_key: str | None = None) -> DeliveryBody:
        """Send a webhook endpoint the event webhook.test."""
        return self._execute(routes.test_webhook(endpoint_id, idempotency_key))

    def webhook_deliveries(
        self, endpoint_id: str, **filters: Unpack[WebhookDeliveriesFilters]
    ) -> Iterator[DeliveryBody]:
        """Yield the deliveries of a webhook endpoint, the latest first, from all pages."""
        return self._rows(routes.webhook_deliveries(endpoint_id, filters))

    def resend_webhook(self, endpoint_id: str, delivery_id: str, *, idempotency_key: str | None = None) -> DeliveryBody:
        """Attempt the delivery of a webhook again."""
        return self._execute(routes.resend_webhook(endpoint_id, delivery_id, idempotency_key))

    def follow(
        self, send_id: str, *, timeout_s: float = 3_600, poll_s: float = 1, unknown_s: float = UNKNOWN_S
    ) -> Iterator[SendBody]:
        """Yield a send each time that it is read, until each of its notifications has ended.

        A send by Kafka is unknown until it is counted. Raises ApiError if it is unknown for `unknown_s` seconds, and
        TimeoutError after `timeout_s` seconds.
        """
        began = time.monotonic()
        while True:
            try:
                send = self.get_send(send_id)
            except ApiError as error:
                if not may_become_known(error, time.monotonic() + poll_s - began, unknown_s):
                    raise
            else:
                yield send
                if send["complete"]:
                    return
            if time.monotonic() + poll_s > began + timeout_s:
                raise TimeoutError(f"Send {send_id} has not ended after {timeout_s:.0f} s.")
            self._sleep(poll_s)

    def _rows[Row](self, listing: Listing[Row]) -> Iterator[Row]:
        cursor: str | None = None
        while True:
            page = self._execute(listing.page(cursor))
            yield from page["rows"]
            if (cursor := page["next_cursor"]) is None:
                return

    def _execute[Body](self, call: Call[Body]) -> Body:
        steps = execute(call, self._attempts)
        answer: httpx.Response | httpx.TransportError | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                body: Body = done.value
                return body
            answer = None
            if isinstance(step, Pause):
                self._sleep(step.seconds)
                continue
            try:
                answer = self._http.request(**step.arguments)
            except httpx.TransportError as error:
                answer = error
