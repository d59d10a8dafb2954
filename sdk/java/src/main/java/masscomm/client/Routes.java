// Generated: python -m ops.openapi.java_client
package masscomm.client;

import java.util.List;
import java.util.Map;
import java.util.function.Function;
import masscomm.client.Types.*;

/** The routes of the API. */
abstract class Routes {
    Routes() {}

    /** Return the response to a request, which is repeated where that is safe. */
    abstract <T> T execute(Call call, Function<Map<String, Object>, T> type);

    /** Return the rows of a list, from all pages. */
    abstract <T> Results<T> rows(String path, Body filters, Function<Map<String, Object>, T> type);

    /**
     * Delete a saved audience, with if_match only as it was read. Sends have copies of its conditions.
     *
     * @param name the member {@code name} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public DeletedAudienceBody deleteAudience(String name, AudienceFilters filters) {
        return deleteAudience(name, filters, null);
    }

    /**
     * Delete a saved audience, with if_match only as it was read. Sends have copies of its conditions.
     *
     * @param name the member {@code name} of the path or the body
     * @param filters the parameters of the request
     * @param ifMatch the entity tags of which the subject must have one, or null
     * @return the body of the response
     */
    public DeletedAudienceBody deleteAudience(String name, AudienceFilters filters, String ifMatch) {
        return execute(
                new Call("DELETE", Call.query(Call.path("audiences", name), filters.members())).header("If-Match", ifMatch).removing(Map.of("name", name, "status", "deleted")),
                DeletedAudienceBody::new);
    }

    /**
     * Delete a type of events. Further events of the type are refused.
     *
     * @param eventType the member {@code event_type} of the path or the body
     * @return the body of the response
     */
    public DeletedEventTypeBody deleteEventType(String eventType) {
        return execute(
                new Call("DELETE", Call.path("event-types", eventType)).removing(Map.of("name", eventType, "status", "deleted")),
                DeletedEventTypeBody::new);
    }

    /**
     * Delete a schedule. Its sends stay.
     *
     * @param schedule the member {@code schedule} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public DeletedScheduleBody deleteSchedule(String schedule, ScheduleFilters filters) {
        return execute(
                new Call("DELETE", Call.query(Call.path("schedules", schedule), filters.members())).removing(Map.of("name", schedule, "status", "deleted")),
                DeletedScheduleBody::new);
    }

    /**
     * Delete a source of incoming webhooks.
     *
     * @param sourceId the member {@code source_id} of the path or the body
     * @return the body of the response
     */
    public DeletedSourceBody deleteSource(String sourceId) {
        return execute(
                new Call("DELETE", Call.path("sources", sourceId)).removing(Map.of("id", sourceId, "status", "deleted")),
                DeletedSourceBody::new);
    }

    /**
     * Delete a subscription. Messages that are on their way are sent.
     *
     * @param subscriptionId the member {@code subscription_id} of the path or the body
     * @return the body of the response
     */
    public DeletedSubscriptionBody deleteSubscription(String subscriptionId) {
        return execute(
                new Call("DELETE", Call.path("subscriptions", subscriptionId)).removing(Map.of("id", subscriptionId, "status", "deleted")),
                DeletedSubscriptionBody::new);
    }

    /**
     * Remove a suppression by its id, so that the address gets e-mail again.
     *
     * @param suppression the member {@code suppression} of the path or the body
     * @return the body of the response
     */
    public RemovedSuppressionBody removeSuppression(String suppression) {
        return execute(
                new Call("DELETE", Call.path("suppressions", suppression)).removing(Map.of("id", suppression, "status", "removed")),
                RemovedSuppressionBody::new);
    }

    /**
     * Remove the rules of a tenant. A repeated call succeeds.
     *
     * @param tenant the member {@code tenant} of the path or the body
     * @return the body of the response
     */
    public TenantPreferencesBody deleteTenantPreferences(String tenant) {
        return deleteTenantPreferences(tenant, null);
    }

    /**
     * Remove the rules of a tenant. A repeated call succeeds.
     *
     * @param tenant the member {@code tenant} of the path or the body
     * @param ifMatch the entity tags of which the subject must have one, or null
     * @return the body of the response
     */
    public TenantPreferencesBody deleteTenantPreferences(String tenant, String ifMatch) {
        return execute(
                new Call("DELETE", Call.path("tenants", tenant, "preferences")).header("If-Match", ifMatch),
                TenantPreferencesBody::new);
    }

    /**
     * Delete a webhook endpoint.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public DeletedWebhookBody deleteWebhook(String endpointId) {
        return execute(
                new Call("DELETE", Call.path("webhooks", endpointId)).removing(Map.of("id", endpointId, "status", "deleted")),
                DeletedWebhookBody::new);
    }

    /**
     * Return the alarms of the installation, those that ring first.
     *
     * @return the body of the response
     */
    public AlarmsBody alarms() {
        return execute(new Call("GET", Call.path("alarms")), AlarmsBody::new);
    }

    /**
     * Return a saved audience with its conditions.
     *
     * @param name the member {@code name} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public SavedAudienceBody audience(String name, AudienceFilters filters) {
        return execute(
                new Call("GET", Call.query(Call.path("audiences", name), filters.members())),
                SavedAudienceBody::new);
    }

    /**
     * Return the saved audiences of a club.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public SavedAudiencesBody audiences(AudiencesFilters filters) {
        return execute(new Call("GET", Call.query(Call.path("audiences"), filters.members())), SavedAudiencesBody::new);
    }

    /**
     * Return the categories of sends, as they were put last.
     *
     * @return the body of the response
     */
    public CategoriesBody categories() {
        return execute(new Call("GET", Call.path("categories")), CategoriesBody::new);
    }

    /**
     * Return a category with all its versions, the latest first.
     *
     * @param category the member {@code category} of the path or the body
     * @return the body of the response
     */
    public CategoryBody category(String category) {
        return execute(new Call("GET", Call.path("categories", category)), CategoryBody::new);
    }

    /**
     * Return a dead letter with its record.
     *
     * @param position the member {@code position} of the path or the body
     * @return the body of the response
     */
    public DeadLetterBody deadLetter(String position) {
        return execute(new Call("GET", Call.path("dead-letters", position)), DeadLetterBody::new);
    }

    /**
     * Return the records that could not be processed, the latest first, from all pages.
     *
     * @return the body of the response
     */
    public Results<DeadLetterRow> deadLetters() {
        return deadLetters(new DeadLettersFilters());
    }

    /**
     * Return the records that could not be processed, the latest first, from all pages.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<DeadLetterRow> deadLetters(DeadLettersFilters filters) {
        return rows(Call.path("dead-letters"), filters, DeadLetterRow::new);
    }

    /**
     * Return the numbers of disabled devices by club and reason.
     *
     * @return the body of the response
     */
    public DisabledCountsBody deviceCounts() {
        return deviceCounts(new DeviceCountsFilters());
    }

    /**
     * Return the numbers of disabled devices by club and reason.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public DisabledCountsBody deviceCounts(DeviceCountsFilters filters) {
        return execute(
                new Call("GET", Call.query(Call.path("devices", "counts"), filters.members())),
                DisabledCountsBody::new);
    }

    /**
     * Return the devices to which nothing is pushed, those disabled last first, from all pages.
     *
     * @return the body of the response
     */
    public Results<DisabledDeviceRow> devices() {
        return devices(new DevicesFilters());
    }

    /**
     * Return the devices to which nothing is pushed, those disabled last first, from all pages.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<DisabledDeviceRow> devices(DevicesFilters filters) {
        return rows(Call.path("devices"), filters, DisabledDeviceRow::new);
    }

    /**
     * Return a type of events.
     *
     * @param eventType the member {@code event_type} of the path or the body
     * @return the body of the response
     */
    public EventTypeBody eventType(String eventType) {
        return execute(new Call("GET", Call.path("event-types", eventType)), EventTypeBody::new);
    }

    /**
     * Return the types of events, with their schemas.
     *
     * @return the body of the response
     */
    public EventTypesBody eventTypes() {
        return execute(new Call("GET", Call.path("event-types")), EventTypesBody::new);
    }

    /**
     * Return the lag of each function, the staleness of the directory and the number of open dead letters.
     *
     * @return the body of the response
     */
    public HealthBody health() {
        return execute(new Call("GET", Call.path("health")), HealthBody::new);
    }

    /**
     * Return how long notifications took, of all tenants together.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public LatencyBody latency(LatencyFilters filters) {
        return execute(
                new Call("GET", Call.query(Call.path("metrics", "latency"), filters.members())),
                LatencyBody::new);
    }

    /**
     * Return the message of a send, while it is kept: its {@code content} has the fields of {@code preview}.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @return the body of the response
     */
    public MessageBody message(String sendId) {
        return execute(new Call("GET", Call.path("sends", sendId, "message")), MessageBody::new);
    }

    /**
     * Return one page of counts by bucket.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public MetricsBody metrics(MetricsFilters filters) {
        return execute(new Call("GET", Call.query(Call.path("metrics"), filters.members())), MetricsBody::new);
    }

    /**
     * Return the timeline of a notification; a row of {@code recipients} has its name.
     *
     * @param notification the member {@code notification} of the path or the body
     * @return the body of the response
     */
    public NotificationBody notification(String notification) {
        return execute(new Call("GET", Call.path("notifications", notification)), NotificationBody::new);
    }

    /**
     * Return sends in progress, the counts of today, and open problems.
     *
     * @return the body of the response
     */
    public OverviewBody overview() {
        return overview(new OverviewFilters());
    }

    /**
     * Return sends in progress, the counts of today, and open problems.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public OverviewBody overview(OverviewFilters filters) {
        return execute(new Call("GET", Call.query(Call.path("overview"), filters.members())), OverviewBody::new);
    }

    /**
     * Return a user's preferences, as they apply now.
     *
     * @param userId the member {@code user_id} of the path or the body
     * @return the body of the response
     */
    public PreferencesBody preferences(long userId) {
        return execute(new Call("GET", Call.path("users", userId, "preferences")), PreferencesBody::new);
    }

    /**
     * Return the notifications of a send with their statuses, from all pages. It needs the log of recipients.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @return the body of the response
     */
    public Results<RecipientBody> recipients(String sendId) {
        return recipients(sendId, new RecipientsFilters());
    }

    /**
     * Return the notifications of a send with their statuses, from all pages. It needs the log of recipients.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<RecipientBody> recipients(String sendId, RecipientsFilters filters) {
        return rows(Call.path("sends", sendId, "recipients"), filters, RecipientBody::new);
    }

    /**
     * Return a schedule with its next times and its last occurrences.
     *
     * @param schedule the member {@code schedule} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public ScheduleBody schedule(String schedule, ScheduleFilters filters) {
        return execute(
                new Call("GET", Call.query(Call.path("schedules", schedule), filters.members())),
                ScheduleBody::new);
    }

    /**
     * Return the schedules of a club.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public SchedulesBody schedules(SchedulesFilters filters) {
        return execute(new Call("GET", Call.query(Call.path("schedules"), filters.members())), SchedulesBody::new);
    }

    /**
     * Return a send with its notifications by status. A send by Kafka is a 404 until it is counted.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @return the body of the response
     */
    public SendBody getSend(String sendId) {
        return execute(new Call("GET", Call.path("sends", sendId)), SendBody::new);
    }

    /**
     * Return the sends of the caller's clubs, the latest first, from all pages.
     *
     * @return the body of the response
     */
    public Results<ListedSend> sends() {
        return sends(new SendsFilters());
    }

    /**
     * Return the sends of the caller's clubs, the latest first, from all pages.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<ListedSend> sends(SendsFilters filters) {
        return rows(Call.path("sends"), filters, ListedSend::new);
    }

    /**
     * Return a source of incoming webhooks, and those that became no event.
     *
     * @param sourceId the member {@code source_id} of the path or the body
     * @return the body of the response
     */
    public ShownSourceBody source(String sourceId) {
        return execute(new Call("GET", Call.path("sources", sourceId)), ShownSourceBody::new);
    }

    /**
     * Return the sources of a club's incoming webhooks.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public SourcesBody sources(SourcesFilters filters) {
        return execute(new Call("GET", Call.query(Call.path("sources"), filters.members())), SourcesBody::new);
    }

    /**
     * Return a subscription.
     *
     * @param subscriptionId the member {@code subscription_id} of the path or the body
     * @return the body of the response
     */
    public SubscriptionBody subscription(String subscriptionId) {
        return execute(new Call("GET", Call.path("subscriptions", subscriptionId)), SubscriptionBody::new);
    }

    /**
     * Return the subscriptions of a webhook endpoint to events; without one, those that notify users.
     *
     * @return the body of the response
     */
    public SubscriptionsBody subscriptions() {
        return subscriptions(new SubscriptionsFilters());
    }

    /**
     * Return the subscriptions of a webhook endpoint to events; without one, those that notify users.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public SubscriptionsBody subscriptions(SubscriptionsFilters filters) {
        return execute(
                new Call("GET", Call.query(Call.path("subscriptions"), filters.members())),
                SubscriptionsBody::new);
    }

    /**
     * Return the addresses to which no e-mail is sent, the latest first, from all pages.
     *
     * @return the body of the response
     */
    public Results<SuppressionRow> suppressions() {
        return suppressions(new SuppressionsFilters());
    }

    /**
     * Return the addresses to which no e-mail is sent, the latest first, from all pages.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<SuppressionRow> suppressions(SuppressionsFilters filters) {
        return rows(Call.path("suppressions"), filters, SuppressionRow::new);
    }

    /**
     * Return the templates of the caller's clubs and those for every club, from all pages.
     *
     * @return the body of the response
     */
    public Results<TemplateBody> templates() {
        return templates(new TemplatesFilters());
    }

    /**
     * Return the templates of the caller's clubs and those for every club, from all pages.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<TemplateBody> templates(TemplatesFilters filters) {
        return rows(Call.path("templates"), filters, TemplateBody::new);
    }

    /**
     * Return the rules of a tenant, which apply to users without a rule; {@code default}: those of every tenant.
     *
     * @param tenant the member {@code tenant} of the path or the body
     * @return the body of the response
     */
    public TenantPreferencesBody tenantPreferences(String tenant) {
        return execute(new Call("GET", Call.path("tenants", tenant, "preferences")), TenantPreferencesBody::new);
    }

    /**
     * Return a user with the devices, as the directory has them.
     *
     * @param userId the member {@code user_id} of the path or the body
     * @return the body of the response
     */
    public UserBody user(long userId) {
        return execute(new Call("GET", Call.path("users", userId)), UserBody::new);
    }

    /**
     * Return a user's notifications, the latest first, from all pages.
     *
     * @param userId the member {@code user_id} of the path or the body
     * @return the body of the response
     */
    public Results<UserNotification> userNotifications(long userId) {
        return userNotifications(userId, new UserNotificationsFilters());
    }

    /**
     * Return a user's notifications, the latest first, from all pages.
     *
     * @param userId the member {@code user_id} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<UserNotification> userNotifications(long userId, UserNotificationsFilters filters) {
        return rows(Call.path("users", userId, "notifications"), filters, UserNotification::new);
    }

    /**
     * Return a webhook endpoint.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public WebhookBody webhook(String endpointId) {
        return execute(new Call("GET", Call.path("webhooks", endpointId)), WebhookBody::new);
    }

    /**
     * Return the messages with events for a webhook endpoint that are not attempted any more, the oldest first,
     * from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public Results<WebhookDeadLetterBody> webhookDeadLetters(String endpointId) {
        return webhookDeadLetters(endpointId, new WebhookDeadLettersFilters());
    }

    /**
     * Return the messages with events for a webhook endpoint that are not attempted any more, the oldest first,
     * from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<WebhookDeadLetterBody> webhookDeadLetters(String endpointId, WebhookDeadLettersFilters filters) {
        return rows(Call.path("webhooks", endpointId, "dead-letters"), filters, WebhookDeadLetterBody::new);
    }

    /**
     * Return the deliveries of a webhook endpoint, the latest first, from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public Results<DeliveryBody> webhookDeliveries(String endpointId) {
        return webhookDeliveries(endpointId, new WebhookDeliveriesFilters());
    }

    /**
     * Return the deliveries of a webhook endpoint, the latest first, from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<DeliveryBody> webhookDeliveries(String endpointId, WebhookDeliveriesFilters filters) {
        return rows(Call.path("webhooks", endpointId, "deliveries"), filters, DeliveryBody::new);
    }

    /**
     * Return the attempts to send events to a webhook endpoint, the latest first, from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public Results<WebhookLogBodyRow> webhookLog(String endpointId) {
        return webhookLog(endpointId, new WebhookLogFilters());
    }

    /**
     * Return the attempts to send events to a webhook endpoint, the latest first, from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<WebhookLogBodyRow> webhookLog(String endpointId, WebhookLogFilters filters) {
        return rows(Call.path("webhooks", endpointId, "log"), filters, WebhookLogBodyRow::new);
    }

    /**
     * Return the counts of the attempts to send events to a webhook endpoint, from all pages.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<WebhookCountRow> webhookMetrics(String endpointId, WebhookMetricsFilters filters) {
        return rows(Call.path("webhooks", endpointId, "metrics"), filters, WebhookCountRow::new);
    }

    /**
     * Return the webhook endpoints of the caller's clubs. An operator, who sees every club, names them.
     *
     * @return the body of the response
     */
    public Results<WebhookBody> webhooks() {
        return webhooks(new WebhooksFilters());
    }

    /**
     * Return the webhook endpoints of the caller's clubs. An operator, who sees every club, names them.
     *
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public Results<WebhookBody> webhooks(WebhooksFilters filters) {
        return rows(Call.path("webhooks"), filters, WebhookBody::new);
    }

    /**
     * Move a scheduled send to another time, such as 2026-11-24T18:00:00+01:00, or change the pace of a send.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public RescheduleBody reschedule(String sendId, RescheduleRequest body) {
        return execute(new Call("PATCH", Call.path("sends", sendId)).with(body.members()), RescheduleBody::new);
    }

    /**
     * Change, disable or enable a webhook endpoint.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public WebhookBody changeWebhook(String endpointId, ChangeWebhookRequest body) {
        return execute(new Call("PATCH", Call.path("webhooks", endpointId)).with(body.members()), WebhookBody::new);
    }

    /**
     * Request up to 1,000 small sends, with a result for each.
     *
     * @param sends the member {@code sends} of the path or the body
     * @return the body of the response
     */
    public BatchBody sendBatch(List<SmallSend> sends) {
        return sendBatch(sends, null);
    }

    /**
     * Request up to 1,000 small sends, with a result for each.
     *
     * @param sends the member {@code sends} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public BatchBody sendBatch(List<SmallSend> sends, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("sends", "batch")).with(new BatchRequest().sends(sends).members()).once(idempotencyKey),
                BatchBody::new);
    }

    /**
     * Cancel the notifications of a send that are not published yet.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @return the body of the response
     */
    public CancelBody cancel(String sendId) {
        return execute(new Call("POST", Call.path("sends", sendId, "cancel")), CancelBody::new);
    }

    /**
     * Return the number of users in an audience, and by channel those that it can reach.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public CountBody countAudience(CountRequest body) {
        return execute(new Call("POST", Call.path("audiences", "count")).with(body.members()), CountBody::new);
    }

    /**
     * Let a disabled device's token be registered again.
     *
     * @param deviceId the member {@code device_id} of the path or the body
     * @return the body of the response
     */
    public EnabledDeviceBody enableDevice(long deviceId) {
        return execute(
                new Call("POST", Call.path("devices", deviceId, "enable")).removing(Map.of("device_id", deviceId, "status", "requested")),
                EnabledDeviceBody::new);
    }

    /**
     * Close a dead letter without a replay.
     *
     * @param position the member {@code position} of the path or the body
     * @param reason the member {@code reason} of the path or the body
     * @return the body of the response
     */
    public DiscardedBody discardDeadLetter(String position, String reason) {
        return discardDeadLetter(position, reason, null);
    }

    /**
     * Close a dead letter without a replay.
     *
     * @param position the member {@code position} of the path or the body
     * @param reason the member {@code reason} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public DiscardedBody discardDeadLetter(String position, String reason, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("dead-letters", position, "discard")).with(new DiscardRequest().reason(reason).members()).once(idempotencyKey),
                DiscardedBody::new);
    }

    /**
     * Return what would become of a send, by channel and reason, with samples of its messages.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public DryRunBody dryRun(SendRequest body) {
        return execute(new Call("POST", Call.path("dry-runs")).with(body.members()), DryRunBody::new);
    }

    /**
     * Report up to 100 events, with a status for each. An event that was accepted in the last 24 hours is {@code
     * repeated}.
     *
     * @param events the member {@code events} of the path or the body
     * @return the body of the response
     */
    public AcceptedEvents reportEvents(List<EventFields> events) {
        return execute(
                new Call("POST", Call.path("events")).with(new EventsRequest().events(events).members()),
                AcceptedEvents::new);
    }

    /**
     * Return the subscriptions that would match an event of a club, without reporting it.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public SubscriptionsBody matchingSubscriptions(EventFields body) {
        return execute(
                new Call("POST", Call.path("subscriptions", "matches")).with(body.members()),
                SubscriptionsBody::new);
    }

    /**
     * Hold the notifications of a send that are not published yet, until it is resumed or cancelled.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @return the body of the response
     */
    public PauseBody pause(String sendId) {
        return execute(new Call("POST", Call.path("sends", sendId, "pause")), PauseBody::new);
    }

    /**
     * Render messages without sending them, for a user or for given values.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public PreviewBody preview(PreviewRequest body) {
        return execute(new Call("POST", Call.path("previews")).with(body.members()), PreviewBody::new);
    }

    /**
     * Produce a dead letter to its source topic, once. A letter that was replayed before is a 409.
     *
     * @param position the member {@code position} of the path or the body
     * @return the body of the response
     */
    public ReplayedBody replayDeadLetter(String position) {
        return replayDeadLetter(position, null);
    }

    /**
     * Produce a dead letter to its source topic, once. A letter that was replayed before is a 409.
     *
     * @param position the member {@code position} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public ReplayedBody replayDeadLetter(String position, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("dead-letters", position, "replay")).once(idempotencyKey),
                ReplayedBody::new);
    }

    /**
     * Continue a paused send.
     *
     * @param sendId the member {@code send_id} of the path or the body
     * @return the body of the response
     */
    public ResumeBody resume(String sendId) {
        return execute(new Call("POST", Call.path("sends", sendId, "resume")), ResumeBody::new);
    }

    /**
     * Pause a schedule: it makes no send until it is resumed.
     *
     * @param schedule the member {@code schedule} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public ScheduleBody pauseSchedule(String schedule, SchedulePauseFilters filters) {
        return execute(
                new Call("POST", Call.query(Call.path("schedules", schedule, "pause"), filters.members())),
                ScheduleBody::new);
    }

    /**
     * Continue a paused schedule with its next time. The caller is its owner then.
     *
     * @param schedule the member {@code schedule} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public ScheduleBody resumeSchedule(String schedule, ScheduleResumeFilters filters) {
        return execute(
                new Call("POST", Call.query(Call.path("schedules", schedule, "resume"), filters.members())),
                ScheduleBody::new);
    }

    /**
     * Request a send. Without a key, one is made for the attempts of this call.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public AcceptedBody send(SendRequest body) {
        return send(body, null);
    }

    /**
     * Request a send. Without a key, one is made for the attempts of this call.
     *
     * @param body the body of the request
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public AcceptedBody send(SendRequest body, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("sends")).with(body.members()).once(idempotencyKey),
                AcceptedBody::new);
    }

    /**
     * Create a source of incoming webhooks. A repeated call creates another one.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public SourceBody createSource(SourceFields body) {
        return execute(new Call("POST", Call.path("sources")).with(body.members()), SourceBody::new);
    }

    /**
     * Subscribe a webhook endpoint to events that occur from now on, or notify users of them. A repeated request
     * has the same id.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public SubscriptionBody createSubscription(SubscriptionFields body) {
        return execute(new Call("POST", Call.path("subscriptions")).with(body.members()), SubscriptionBody::new);
    }

    /**
     * Create a webhook endpoint. Only this response has its secret. Without a key, one is made for the attempts of
     * this call.
     *
     * @param body the body of the request
     * @return the body of the response
     */
    public NewWebhookBody createWebhook(CreateWebhookRequest body) {
        return createWebhook(body, null);
    }

    /**
     * Create a webhook endpoint. Only this response has its secret. Without a key, one is made for the attempts of
     * this call.
     *
     * @param body the body of the request
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public NewWebhookBody createWebhook(CreateWebhookRequest body, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("webhooks")).with(body.members()).once(idempotencyKey),
                NewWebhookBody::new);
    }

    /**
     * Delete the dead letters of a webhook endpoint up to an id or a time, at most 500.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param upTo the member {@code up_to} of the path or the body
     * @return the body of the response
     */
    public AcknowledgedWebhooksBody acknowledgeWebhookDeadLetters(String endpointId, String upTo) {
        return execute(
                new Call("POST", Call.path("webhooks", endpointId, "dead-letters", "ack")).with(new AcknowledgeWebhooksRequest().upTo(upTo).members()),
                AcknowledgedWebhooksBody::new);
    }

    /**
     * Send dead letters of a webhook endpoint again: those with ids, or of a span and a type, at most 500.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public ReplayedWebhooksBody replayWebhookDeadLetters(String endpointId, ReplayWebhooksRequest body) {
        return execute(
                new Call("POST", Call.path("webhooks", endpointId, "dead-letters", "replay")).with(body.members()),
                ReplayedWebhooksBody::new);
    }

    /**
     * Attempt the delivery of a webhook again.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param deliveryId the member {@code delivery_id} of the path or the body
     * @return the body of the response
     */
    public DeliveryBody resendWebhook(String endpointId, String deliveryId) {
        return resendWebhook(endpointId, deliveryId, null);
    }

    /**
     * Attempt the delivery of a webhook again.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param deliveryId the member {@code delivery_id} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public DeliveryBody resendWebhook(String endpointId, String deliveryId, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("webhooks", endpointId, "deliveries", deliveryId, "resend")).once(idempotencyKey),
                DeliveryBody::new);
    }

    /**
     * Give a webhook endpoint a new secret; the previous one also signs for 24 hours.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public NewWebhookBody rotateWebhook(String endpointId) {
        return rotateWebhook(endpointId, null);
    }

    /**
     * Give a webhook endpoint a new secret; the previous one also signs for 24 hours.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public NewWebhookBody rotateWebhook(String endpointId, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("webhooks", endpointId, "rotate")).once(idempotencyKey),
                NewWebhookBody::new);
    }

    /**
     * Send a webhook endpoint the event webhook.test.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @return the body of the response
     */
    public DeliveryBody testWebhook(String endpointId) {
        return testWebhook(endpointId, null);
    }

    /**
     * Send a webhook endpoint the event webhook.test.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public DeliveryBody testWebhook(String endpointId, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("webhooks", endpointId, "test")).once(idempotencyKey),
                DeliveryBody::new);
    }

    /**
     * Send a webhook endpoint the example of an event type to which it subscribes.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param eventType the member {@code event_type} of the path or the body
     * @return the body of the response
     */
    public DeliveryBody testWebhookType(String endpointId, String eventType) {
        return testWebhookType(endpointId, eventType, null);
    }

    /**
     * Send a webhook endpoint the example of an event type to which it subscribes.
     *
     * @param endpointId the member {@code endpoint_id} of the path or the body
     * @param eventType the member {@code event_type} of the path or the body
     * @param idempotencyKey the same for each repetition of the request; null: one is made for the attempts of
     * this call
     * @return the body of the response
     */
    public DeliveryBody testWebhookType(String endpointId, String eventType, String idempotencyKey) {
        return execute(
                new Call("POST", Call.path("webhooks", endpointId, "test", eventType)).once(idempotencyKey),
                DeliveryBody::new);
    }

    /**
     * Save an audience, in the place of an earlier one with its name. The conditions are those of set_category.
     *
     * @param name the member {@code name} of the path or the body
     * @param audience the member {@code audience} of the path or the body
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public SavedAudienceBody saveAudience(String name, Map<String, Object> audience, AudienceFilters filters) {
        return saveAudience(name, audience, filters, null, null);
    }

    /**
     * Save an audience, in the place of an earlier one with its name. The conditions are those of set_category.
     *
     * @param name the member {@code name} of the path or the body
     * @param audience the member {@code audience} of the path or the body
     * @param filters the parameters of the request
     * @param ifMatch the entity tags of which the subject must have one, or null
     * @param ifNoneMatch the entity tags of which the subject may have none ({@code *}: it must be absent), or
     * null
     * @return the body of the response
     */
    public SavedAudienceBody saveAudience(String name, Map<String, Object> audience, AudienceFilters filters, String ifMatch, String ifNoneMatch) {
        return execute(
                new Call("PUT", Call.query(Call.path("audiences", name), filters.members())).with(new SavedAudienceFields().audience(audience).members()).header("If-Match", ifMatch).header("If-None-Match", ifNoneMatch),
                SavedAudienceBody::new);
    }

    /**
     * Put a version of a category, which is valid a minute later. It replaces all fields. With the {@code etag} of
     * an answer in If-Match, or {@code *} in If-None-Match, the API refuses (412) to change a category that
     * another request has changed since, or that exists.
     *
     * @param category the member {@code category} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public CategoryBody setCategory(String category, CategoryFields body) {
        return setCategory(category, body, null, null);
    }

    /**
     * Put a version of a category, which is valid a minute later. It replaces all fields. With the {@code etag} of
     * an answer in If-Match, or {@code *} in If-None-Match, the API refuses (412) to change a category that
     * another request has changed since, or that exists.
     *
     * @param category the member {@code category} of the path or the body
     * @param body the body of the request
     * @param ifMatch the entity tags of which the subject must have one, or null
     * @return the body of the response
     */
    public CategoryBody setCategory(String category, CategoryFields body, String ifMatch) {
        return setCategory(category, body, ifMatch, null);
    }

    /**
     * Put a version of a category, which is valid a minute later. It replaces all fields. With the {@code etag} of
     * an answer in If-Match, or {@code *} in If-None-Match, the API refuses (412) to change a category that
     * another request has changed since, or that exists.
     *
     * @param category the member {@code category} of the path or the body
     * @param body the body of the request
     * @param ifMatch the entity tags of which the subject must have one, or null
     * @param ifNoneMatch the entity tags of which the subject may have none ({@code *}: it must be absent), or
     * null
     * @return the body of the response
     */
    public CategoryBody setCategory(String category, CategoryFields body, String ifMatch, String ifNoneMatch) {
        return execute(
                new Call("PUT", Call.path("categories", category)).with(body.members()).header("If-Match", ifMatch).header("If-None-Match", ifNoneMatch),
                CategoryBody::new);
    }

    /**
     * Store a type of events, in the place of an earlier one with its name.
     *
     * @param eventType the member {@code event_type} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public EventTypeBody setEventType(String eventType, EventTypeFields body) {
        return execute(new Call("PUT", Call.path("event-types", eventType)).with(body.members()), EventTypeBody::new);
    }

    /**
     * Set rules for channels and categories. Other rules stay as they are.
     *
     * @param userId the member {@code user_id} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public PreferencesBody setPreferences(long userId, PreferencesRequest body) {
        return execute(
                new Call("PUT", Call.path("users", userId, "preferences")).with(body.members()),
                PreferencesBody::new);
    }

    /**
     * Save a schedule, in the place of an earlier one with its name.
     *
     * @param schedule the member {@code schedule} of the path or the body
     * @param body the body of the request
     * @param filters the parameters of the request
     * @return the body of the response
     */
    public ScheduleBody saveSchedule(String schedule, ScheduleRequest body, ScheduleFilters filters) {
        return execute(
                new Call("PUT", Call.query(Call.path("schedules", schedule), filters.members())).with(body.members()),
                ScheduleBody::new);
    }

    /**
     * Replace the fields of a source. Without {@code secret} it keeps its own.
     *
     * @param sourceId the member {@code source_id} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public SourceBody setSource(String sourceId, SourceFields body) {
        return execute(new Call("PUT", Call.path("sources", sourceId)).with(body.members()), SourceBody::new);
    }

    /**
     * Replace the rules of a tenant. With the {@code etag} of an answer in If-Match, the API refuses (412) to
     * change rules that another request has changed since.
     *
     * @param tenant the member {@code tenant} of the path or the body
     * @param body the body of the request
     * @return the body of the response
     */
    public TenantPreferencesBody setTenantPreferences(String tenant, TenantPreferencesFields body) {
        return setTenantPreferences(tenant, body, null);
    }

    /**
     * Replace the rules of a tenant. With the {@code etag} of an answer in If-Match, the API refuses (412) to
     * change rules that another request has changed since.
     *
     * @param tenant the member {@code tenant} of the path or the body
     * @param body the body of the request
     * @param ifMatch the entity tags of which the subject must have one, or null
     * @return the body of the response
     */
    public TenantPreferencesBody setTenantPreferences(String tenant, TenantPreferencesFields body, String ifMatch) {
        return execute(
                new Call("PUT", Call.path("tenants", tenant, "preferences")).with(body.members()).header("If-Match", ifMatch),
                TenantPreferencesBody::new);
    }
}
