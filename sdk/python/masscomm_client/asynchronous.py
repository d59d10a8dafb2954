"""The client for asyncio: the methods of Client as coroutines and asynchronous iterators."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from . import types
from .calls import UNKNOWN_S, Call, Page, Pause, conditions, execute, key_headers, may_become_known, once, path_of
from .errors import ApiError


class AsyncClient:
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
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._http = httpx.AsyncClient(
            base_url=url, headers=key_headers(key), timeout=timeout_s, trust_env=False, transport=transport
        )
        self._attempts = attempts
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(
        self, *, idempotency_key: str | None = None, **fields: Unpack[types.SendRequest]
    ) -> types.AcceptedBody:
        """Request a send. Without a key, one is made for the attempts of this call."""
        return await self._execute(once("/v1/sends", fields, idempotency_key))

    async def dry_run(self, **fields: Unpack[types.SendRequest]) -> types.DryRunBody:
        """Return what would become of a send, by channel and reason, with samples of its messages."""
        return await self._execute(Call("POST", "/v1/dry-runs", body=dict(fields)))

    async def send_batch(
        self, sends: Iterable[types.SmallSend], *, idempotency_key: str | None = None
    ) -> types.BatchBody:
        """Request up to 1,000 small sends, with a result for each."""
        return await self._execute(once("/v1/sends/batch", {"sends": list(sends)}, idempotency_key))

    async def count_audience(self, **fields: Unpack[types.CountRequest]) -> types.CountBody:
        """Return the number of users in an audience, and by channel those that it can reach."""
        return await self._execute(Call("POST", "/v1/audiences/count", body=dict(fields)))

    async def audiences(self, *, club_id: int) -> types.SavedAudiencesBody:
        """Return the saved audiences of a club."""
        return await self._execute(Call("GET", "/v1/audiences", {"club_id": club_id}))

    async def audience(self, name: str, *, club_id: int) -> types.SavedAudienceBody:
        """Return a saved audience with its conditions."""
        return await self._execute(Call("GET", path_of("audiences", name), {"club_id": club_id}))

    async def save_audience(
        self,
        name: str,
        audience: Mapping[str, Any],
        *,
        club_id: int,
        if_match: str | None = None,
        if_none_match: str | None = None,
    ) -> types.SavedAudienceBody:
        """Save an audience, in the place of an earlier one with its name. The conditions are those of set_category."""
        path, body = path_of("audiences", name), {"audience": dict(audience)}
        headers = conditions(if_match, if_none_match)
        return await self._execute(Call("PUT", path, {"club_id": club_id}, body, headers=headers))

    async def delete_audience(
        self, name: str, *, club_id: int, if_match: str | None = None
    ) -> types.DeletedAudienceBody:
        """Delete a saved audience, with if_match only as it was read. Sends have copies of its conditions."""
        removed: types.DeletedAudienceBody = {"name": name, "status": "deleted"}
        headers, query = conditions(if_match, None), {"club_id": club_id}
        call = Call("DELETE", path_of("audiences", name), query, headers=headers, removed=removed)
        return await self._execute(call)

    async def schedules(self, *, club_id: int) -> types.SchedulesBody:
        """Return the schedules of a club."""
        return await self._execute(Call("GET", "/v1/schedules", {"club_id": club_id}))

    async def schedule(self, name: str, *, club_id: int) -> types.ScheduleBody:
        """Return a schedule with its next times and its last occurrences."""
        return await self._execute(Call("GET", path_of("schedules", name), {"club_id": club_id}))

    async def save_schedule(self, name: str, schedule: types.ScheduleRequest, *, club_id: int) -> types.ScheduleBody:
        """Save a schedule, in the place of an earlier one with its name."""
        path = path_of("schedules", name)
        return await self._execute(Call("PUT", path, {"club_id": club_id}, dict(schedule)))

    async def pause_schedule(self, name: str, *, club_id: int) -> types.ScheduleBody:
        """Pause a schedule: it makes no send until it is resumed."""
        return await self._execute(Call("POST", path_of("schedules", name, "pause"), {"club_id": club_id}))

    async def resume_schedule(self, name: str, *, club_id: int) -> types.ScheduleBody:
        """Continue a paused schedule with its next time. The caller is its owner then."""
        return await self._execute(Call("POST", path_of("schedules", name, "resume"), {"club_id": club_id}))

    async def delete_schedule(self, name: str, *, club_id: int) -> types.DeletedScheduleBody:
        """Delete a schedule. Its sends stay."""
        removed: types.DeletedScheduleBody = {"name": name, "status": "deleted"}
        call = Call("DELETE", path_of("schedules", name), {"club_id": club_id}, removed=removed)
        return await self._execute(call)

    async def get_send(self, send_id: str) -> types.SendBody:
        """Return a send with its notifications by status. A send by Kafka is a 404 until it is counted."""
        return await self._execute(Call("GET", path_of("sends", send_id)))

    async def cancel(self, send_id: str) -> types.CancelBody:
        """Cancel the notifications of a send that are not published yet."""
        return await self._execute(Call("POST", path_of("sends", send_id, "cancel")))

    async def pause(self, send_id: str) -> types.PauseBody:
        """Hold the notifications of a send that are not published yet, until it is resumed or cancelled."""
        return await self._execute(Call("POST", path_of("sends", send_id, "pause")))

    async def resume(self, send_id: str) -> types.ResumeBody:
        """Continue a paused send."""
        return await self._execute(Call("POST", path_of("sends", send_id, "resume")))

    async def reschedule(
        self, send_id: str, send_at: str | None = None, *, per_minute: int | None = None
    ) -> types.RescheduleBody:
        """Move a scheduled send to another time, such as 2026-11-24T18:00:00+01:00, or change the pace of a send."""
        given = {"send_at": send_at, "per_minute": per_minute}
        body = {name: value for name, value in given.items() if value is not None}
        return await self._execute(Call("PATCH", path_of("sends", send_id), body=body))

    def sends(self, **filters: Unpack[types.SendsFilters]) -> AsyncIterator[types.ListedSend]:
        """Yield the sends of the caller's clubs, the latest first, from all pages."""
        return self._rows("/v1/sends", filters)

    def recipients(
        self, send_id: str, **filters: Unpack[types.RecipientsFilters]
    ) -> AsyncIterator[types.RecipientBody]:
        """Yield the notifications of a send with their statuses, from all pages. It needs the log of recipients."""
        return self._rows(path_of("sends", send_id, "recipients"), filters)

    async def message(self, send_id: str) -> types.MessageBody:
        """Return the message of a send, while it is kept: its `content` has the fields of `preview`."""
        return await self._execute(Call("GET", path_of("sends", send_id, "message")))

    async def notification(self, name: str) -> types.NotificationBody:
        """Return the timeline of a notification; a row of `recipients` has its name."""
        return await self._execute(Call("GET", path_of("notifications", name)))

    async def preview(self, **fields: Unpack[types.PreviewRequest]) -> types.PreviewBody:
        """Render messages without sending them, for a user or for given values."""
        return await self._execute(Call("POST", "/v1/previews", body=fields))

    def templates(self, **filters: Unpack[types.TemplatesFilters]) -> AsyncIterator[types.TemplateBody]:
        """Yield the templates of the caller's clubs and those for every club, from all pages."""
        return self._rows("/v1/templates", filters)

    async def categories(self) -> types.CategoriesBody:
        """Return the categories of sends, as they were put last."""
        return await self._execute(Call("GET", "/v1/categories"))

    async def category(self, name: str) -> types.CategoryBody:
        """Return a category with all its versions, the latest first."""
        return await self._execute(Call("GET", path_of("categories", name)))

    async def set_category(
        self,
        name: str,
        *,
        if_match: str | None = None,
        if_none_match: str | None = None,
        **fields: Unpack[types.CategoryFields],
    ) -> types.CategoryBody:
        """Put a version of a category, which is valid a minute later. It replaces all fields.

        With the `etag` of an answer in If-Match, or `*` in If-None-Match, the API refuses (412) to change a category
        that another request has changed since, or that exists.
        """
        headers = conditions(if_match, if_none_match)
        return await self._execute(Call("PUT", path_of("categories", name), body=dict(fields), headers=headers))

    def user_notifications(
        self, user_id: int, **filters: Unpack[types.UserNotificationsFilters]
    ) -> AsyncIterator[types.UserNotification]:
        """Yield a user's notifications, the latest first, from all pages."""
        return self._rows(path_of("users", user_id, "notifications"), filters)

    async def user(self, user_id: int) -> types.UserBody:
        """Return a user with the devices, as the directory has them."""
        return await self._execute(Call("GET", path_of("users", user_id)))

    async def preferences(self, user_id: int) -> types.PreferencesBody:
        """Return a user's preferences, as they apply now."""
        return await self._execute(Call("GET", path_of("users", user_id, "preferences")))

    async def set_preferences(self, user_id: int, **rules: Unpack[types.PreferencesRequest]) -> types.PreferencesBody:
        """Set rules for channels and categories. Other rules stay as they are."""
        return await self._execute(Call("PUT", path_of("users", user_id, "preferences"), body=dict(rules)))

    async def tenant_preferences(self, tenant: int | str) -> types.TenantPreferencesBody:
        """Return the rules of a tenant, which apply to users without a rule; `default`: those of every tenant."""
        return await self._execute(Call("GET", path_of("tenants", tenant, "preferences")))

    async def set_tenant_preferences(
        self, tenant: int | str, *, if_match: str | None = None, **rules: Unpack[types.TenantPreferencesFields]
    ) -> types.TenantPreferencesBody:
        """Replace the rules of a tenant.

        With the `etag` of an answer in If-Match, the API refuses (412) to change rules that another request has changed
        since.
        """
        headers = conditions(if_match, None)
        path = path_of("tenants", tenant, "preferences")
        return await self._execute(Call("PUT", path, body=dict(rules), headers=headers))

    async def delete_tenant_preferences(
        self, tenant: int | str, *, if_match: str | None = None
    ) -> types.TenantPreferencesBody:
        """Remove the rules of a tenant. A repeated call succeeds."""
        headers = conditions(if_match, None)
        return await self._execute(Call("DELETE", path_of("tenants", tenant, "preferences"), headers=headers))

    async def metrics(self, **query: Unpack[types.MetricsFilters]) -> types.MetricsBody:
        """Return one page of counts by bucket."""
        return await self._execute(Call("GET", "/v1/metrics", query))

    async def latency(self, **query: Unpack[types.LatencyFilters]) -> types.LatencyBody:
        """Return how long notifications took, of all tenants together."""
        return await self._execute(Call("GET", "/v1/metrics/latency", query))

    async def overview(self, **filters: Unpack[types.OverviewFilters]) -> types.OverviewBody:
        """Return sends in progress, the counts of today, and open problems."""
        return await self._execute(Call("GET", "/v1/overview", filters))

    async def health(self) -> types.HealthBody:
        """Return the lag of each function, the staleness of the directory and the number of open dead letters."""
        return await self._execute(Call("GET", "/v1/health"))

    async def alarms(self) -> types.AlarmsBody:
        """Return the alarms of the installation, those that ring first."""
        return await self._execute(Call("GET", "/v1/alarms"))

    def dead_letters(self, **filters: Unpack[types.DeadLettersFilters]) -> AsyncIterator[types.DeadLetterRow]:
        """Yield the records that could not be processed, the latest first, from all pages."""
        return self._rows("/v1/dead-letters", filters)

    async def dead_letter(self, position: str) -> types.DeadLetterBody:
        """Return a dead letter with its record."""
        return await self._execute(Call("GET", path_of("dead-letters", position)))

    async def replay_dead_letter(self, position: str, *, idempotency_key: str | None = None) -> types.ReplayedBody:
        """Produce a dead letter to its source topic, once. A letter that was replayed before is a 409."""
        return await self._execute(once(path_of("dead-letters", position, "replay"), {}, idempotency_key))

    async def discard_dead_letter(
        self, position: str, reason: str, *, idempotency_key: str | None = None
    ) -> types.DiscardedBody:
        """Close a dead letter without a replay."""
        return await self._execute(
            once(path_of("dead-letters", position, "discard"), {"reason": reason}, idempotency_key)
        )

    def suppressions(self, **filters: Unpack[types.SuppressionsFilters]) -> AsyncIterator[types.SuppressionRow]:
        """Yield the addresses to which no e-mail is sent, the latest first, from all pages."""
        return self._rows("/v1/suppressions", filters)

    async def remove_suppression(self, suppression: str) -> types.RemovedSuppressionBody:
        """Remove a suppression by its id, so that the address gets e-mail again."""
        removed: types.RemovedSuppressionBody = {"id": suppression, "status": "removed"}
        return await self._execute(Call("DELETE", path_of("suppressions", suppression), removed=removed))

    def devices(self, **filters: Unpack[types.DevicesFilters]) -> AsyncIterator[types.DisabledDeviceRow]:
        """Yield the devices to which nothing is pushed, those disabled last first, from all pages."""
        return self._rows("/v1/devices", filters)

    async def device_counts(self, **filters: Unpack[types.DeviceCountsFilters]) -> types.DisabledCountsBody:
        """Return the numbers of disabled devices by club and reason."""
        return await self._execute(Call("GET", "/v1/devices/counts", filters))

    async def enable_device(self, device_id: int) -> types.EnabledDeviceBody:
        """Let a disabled device's token be registered again."""
        removed: types.EnabledDeviceBody = {"device_id": device_id, "status": "requested"}
        return await self._execute(Call("POST", path_of("devices", device_id, "enable"), removed=removed))

    def webhooks(self, **filters: Unpack[types.WebhooksFilters]) -> AsyncIterator[types.WebhookBody]:
        """Yield the webhook endpoints of the caller's clubs. An operator, who sees every club, names them."""
        return self._rows("/v1/webhooks", filters)

    async def create_webhook(
        self, *, idempotency_key: str | None = None, **fields: Unpack[types.CreateWebhookRequest]
    ) -> types.NewWebhookBody:
        """Create a webhook endpoint. Only this response has its secret. Without a key, one is made for the attempts of
        this call.
        """
        return await self._execute(once("/v1/webhooks", fields, idempotency_key))

    async def webhook(self, endpoint_id: str) -> types.WebhookBody:
        """Return a webhook endpoint."""
        return await self._execute(Call("GET", path_of("webhooks", endpoint_id)))

    async def change_webhook(self, endpoint_id: str, **fields: Unpack[types.ChangeWebhookRequest]) -> types.WebhookBody:
        """Change, disable or enable a webhook endpoint."""
        return await self._execute(Call("PATCH", path_of("webhooks", endpoint_id), body=dict(fields)))

    async def delete_webhook(self, endpoint_id: str) -> types.DeletedWebhookBody:
        """Delete a webhook endpoint."""
        removed: types.DeletedWebhookBody = {"id": endpoint_id, "status": "deleted"}
        return await self._execute(Call("DELETE", path_of("webhooks", endpoint_id), removed=removed))

    async def rotate_webhook(self, endpoint_id: str, *, idempotency_key: str | None = None) -> types.NewWebhookBody:
        """Give a webhook endpoint a new secret; the previous one also signs for 24 hours."""
        return await self._execute(once(path_of("webhooks", endpoint_id, "rotate"), {}, idempotency_key))

    async def test_webhook(self, endpoint_id: str, *, idempotency_key: str | None = None) -> types.DeliveryBody:
        """Send a webhook endpoint the event webhook.test."""
        return await self._execute(once(path_of("webhooks", endpoint_id, "test"), {}, idempotency_key))

    async def test_webhook_type(
        self, endpoint_id: str, event_type: str, *, idempotency_key: str | None = None
    ) -> types.DeliveryBody:
        """Send a webhook endpoint the example of an event type to which it subscribes."""
        return await self._execute(once(path_of("webhooks", endpoint_id, "test", event_type), {}, idempotency_key))

    def webhook_deliveries(
        self, endpoint_id: str, **filters: Unpack[types.WebhookDeliveriesFilters]
    ) -> AsyncIterator[types.DeliveryBody]:
        """Yield the deliveries of a webhook endpoint, the latest first, from all pages."""
        return self._rows(path_of("webhooks", endpoint_id, "deliveries"), filters)

    async def resend_webhook(
        self, endpoint_id: str, delivery_id: str, *, idempotency_key: str | None = None
    ) -> types.DeliveryBody:
        """Attempt the delivery of a webhook again."""
        return await self._execute(
            once(path_of("webhooks", endpoint_id, "deliveries", delivery_id, "resend"), {}, idempotency_key)
        )

    def webhook_log(
        self, endpoint_id: str, **filters: Unpack[types.WebhookLogFilters]
    ) -> AsyncIterator[types.WebhookLogBodyRow]:
        """Yield the attempts to send events to a webhook endpoint, the latest first, from all pages."""
        return self._rows(path_of("webhooks", endpoint_id, "log"), filters)

    def webhook_metrics(
        self, endpoint_id: str, **filters: Unpack[types.WebhookMetricsFilters]
    ) -> AsyncIterator[types.WebhookCountRow]:
        """Yield the counts of the attempts to send events to a webhook endpoint, from all pages."""
        return self._rows(path_of("webhooks", endpoint_id, "metrics"), filters)

    def webhook_dead_letters(
        self, endpoint_id: str, **filters: Unpack[types.WebhookDeadLettersFilters]
    ) -> AsyncIterator[types.WebhookDeadLetterBody]:
        """Yield the messages with events for a webhook endpoint that are not attempted any more, the oldest first, from
        all pages.
        """
        return self._rows(path_of("webhooks", endpoint_id, "dead-letters"), filters)

    async def acknowledge_webhook_dead_letters(self, endpoint_id: str, up_to: str) -> types.AcknowledgedWebhooksBody:
        """Delete the dead letters of a webhook endpoint up to an id or a time, at most 500."""
        path = path_of("webhooks", endpoint_id, "dead-letters", "ack")
        return await self._execute(Call("POST", path, body={"up_to": up_to}))

    async def replay_webhook_dead_letters(
        self, endpoint_id: str, **fields: Unpack[types.ReplayWebhooksRequest]
    ) -> types.ReplayedWebhooksBody:
        """Send dead letters of a webhook endpoint again: those with ids, or of a span and a type, at most 500."""
        path = path_of("webhooks", endpoint_id, "dead-letters", "replay")
        return await self._execute(Call("POST", path, body=dict(fields)))

    async def report_events(self, events: Iterable[types.EventFields]) -> types.AcceptedEvents:
        """Report up to 100 events, with a status for each. An event that was accepted in the last 24 hours is
        `repeated`.
        """
        return await self._execute(Call("POST", "/v1/events", body={"events": list(events)}))

    async def event_types(self) -> types.EventTypesBody:
        """Return the types of events, with their schemas."""
        return await self._execute(Call("GET", "/v1/event-types"))

    async def event_type(self, name: str) -> types.EventTypeBody:
        """Return a type of events."""
        return await self._execute(Call("GET", path_of("event-types", name)))

    async def set_event_type(self, name: str, **fields: Unpack[types.EventTypeFields]) -> types.EventTypeBody:
        """Store a type of events, in the place of an earlier one with its name."""
        return await self._execute(Call("PUT", path_of("event-types", name), body=dict(fields)))

    async def delete_event_type(self, name: str) -> types.DeletedEventTypeBody:
        """Delete a type of events. Further events of the type are refused."""
        removed: types.DeletedEventTypeBody = {"name": name, "status": "deleted"}
        return await self._execute(Call("DELETE", path_of("event-types", name), removed=removed))

    async def sources(self, **filters: Unpack[types.SourcesFilters]) -> types.SourcesBody:
        """Return the sources of a club's incoming webhooks."""
        return await self._execute(Call("GET", "/v1/sources", filters))

    async def create_source(self, **fields: Unpack[types.SourceFields]) -> types.SourceBody:
        """Create a source of incoming webhooks. A repeated call creates another one."""
        return await self._execute(Call("POST", "/v1/sources", body=dict(fields)))

    async def source(self, source_id: str) -> types.ShownSourceBody:
        """Return a source of incoming webhooks, and those that became no event."""
        return await self._execute(Call("GET", path_of("sources", source_id)))

    async def set_source(self, source_id: str, **fields: Unpack[types.SourceFields]) -> types.SourceBody:
        """Replace the fields of a source. Without `secret` it keeps its own."""
        return await self._execute(Call("PUT", path_of("sources", source_id), body=dict(fields)))

    async def delete_source(self, source_id: str) -> types.DeletedSourceBody:
        """Delete a source of incoming webhooks."""
        removed: types.DeletedSourceBody = {"id": source_id, "status": "deleted"}
        return await self._execute(Call("DELETE", path_of("sources", source_id), removed=removed))

    async def subscriptions(self, **filters: Unpack[types.SubscriptionsFilters]) -> types.SubscriptionsBody:
        """Return the subscriptions of a webhook endpoint to events; without one, those that notify users."""
        return await self._execute(Call("GET", "/v1/subscriptions", filters))

    async def create_subscription(self, **fields: Unpack[types.SubscriptionFields]) -> types.SubscriptionBody:
        """Subscribe a webhook endpoint to events that occur from now on, or notify users of them. A repeated request
        has the same id.
        """
        return await self._execute(Call("POST", "/v1/subscriptions", body=dict(fields)))

    async def matching_subscriptions(self, **fields: Unpack[types.EventFields]) -> types.SubscriptionsBody:
        """Return the subscriptions that would match an event of a club, without reporting it."""
        return await self._execute(Call("POST", "/v1/subscriptions/matches", body=dict(fields)))

    async def subscription(self, subscription_id: str) -> types.SubscriptionBody:
        """Return a subscription."""
        return await self._execute(Call("GET", path_of("subscriptions", subscription_id)))

    async def delete_subscription(self, subscription_id: str) -> types.DeletedSubscriptionBody:
        """Delete a subscription. Messages that are on their way are sent."""
        removed: types.DeletedSubscriptionBody = {"id": subscription_id, "status": "deleted"}
        return await self._execute(Call("DELETE", path_of("subscriptions", subscription_id), removed=removed))

    async def follow(
        self, send_id: str, *, timeout_s: float = 3_600, poll_s: float = 1, unknown_s: float = UNKNOWN_S
    ) -> AsyncIterator[types.SendBody]:
        """Yield a send each time that it is read, until each of its notifications has ended and is counted.

        A send by Kafka is unknown until it is counted. Raises ApiError if it is unknown for `unknown_s` seconds, and
        TimeoutError after `timeout_s` seconds.
        """
        began = time.monotonic()
        while True:
            try:
                send = await self.get_send(send_id)
            except ApiError as error:
                if not may_become_known(error, time.monotonic() + poll_s - began, unknown_s):
                    raise
            else:
                yield send
                if send["complete"]:
                    return
            if time.monotonic() + poll_s > began + timeout_s:
                raise TimeoutError(f"Send {send_id} has not ended after {timeout_s:.0f} s.")
            await self._sleep(poll_s)

    async def _rows[Row](self, path: str, filters: Mapping[str, Any]) -> AsyncIterator[Row]:
        cursor: str | None = None
        while True:
            page: Page[Row] = await self._execute(Call("GET", path, {**filters, "cursor": cursor}))
            for row in page["rows"]:
                yield row
            if (cursor := page["next_cursor"]) is None:
                return

    async def _execute[Body](self, call: Call[Body]) -> Body:
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
                await self._sleep(step.seconds)
                continue
            try:
                answer = await self._http.request(**step.arguments)
            except httpx.TransportError as error:
                answer = error
