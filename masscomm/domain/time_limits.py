"""The durations that must agree: leases, time-outs, reserves, pauses, polls and retentions, with their rules.

A module imports its durations from here. RULES says how they depend on each other, on the time limits of
functions/functions.yaml and on the retentions of schemas/topics.yaml. tests/unit/test_time_limits.py evaluates them.
"""

from collections.abc import Mapping

_HOUR_S = 3_600
_DAY_S = 24 * _HOUR_S

# --- invocations ------------------------------------------------------------------------------------------------------
# The time limit of preference_checker, builder and delivery, as the scheduler assumes it.
CHAIN_TIMEOUT_S = 60.0
# The part of the remaining time that the batch driver reserves for flushing the producer and for its response.
FLUSH_RESERVE_S = 2.0
# The Kafka producer's message.timeout.ms: every delivery report arrives before the function ends.
PRODUCER_MESSAGE_S = 15.0
# The first and the longest pause of a Kafka client after a lost connection; librdkafka adds up to half of it. A broker
# of the type t3.small accepts four new connections with IAM a second, others 100.
# https://docs.aws.amazon.com/msk/latest/developerguide/limits.html
KAFKA_RECONNECT_S, KAFKA_RECONNECT_MOST_S = 1.0, 5.0
# How long a batch waits for storing the results of small sends. It begins with the flush, which mostly takes longer.
RESULTS_PUT_S = 0.5
# How long before the watermark of the metrics a result was stored whose record may be in its topic after the watermark.
RESULTS_UNCOUNTED_S = 20.0
# The time limit of flushing the chunks of one request.
SEND_FLUSH_S = 20.0
# The time limit of flushing the single record of a request, such as that of changed preferences.
API_FLUSH_S = 16.0
# The time that API Gateway waits for a function. Source: AWS documentation, "Quotas for configuring and running a REST
# API in API Gateway".
GATEWAY_TIMEOUT_S = 29
# The age at which a sweep produces changed preferences that no function has produced: no function that has stored them
# still runs.
PREFERENCES_SWEPT_AFTER_S = 60.0
# The time that this sweep reserves for a page: its flush, and the writes to the directory.
PREFERENCES_SWEEP_RESERVE_S = 20.0
# The time limit of one call to the store of idempotency keys, with all its attempts. A request makes at most three
# calls.
IDEMPOTENCY_CALL_S = 2.0
# The time limit of recording an accepted send, with all its attempts.
ACCEPTED_CALL_S = 2.0
# How long the counts of e-mails, and the ids of counted records, are kept.
EMAIL_COUNTS_KEPT_S = 10 * _DAY_S
# The time limit of the requests to SES about the sender of a tenant, and how long its answers are valid.
SENDER_CHECK_S, SENDER_CHECK_VALID_S = 0.4, 300.0
# How long the response to a send waits for its warnings.
WARNINGS_S = 0.5
# Two limits of the scheduler's sweep of due records: the time limit of the flush, and the time reserved for the flush
# and the writes to the store.
SWEEP_FLUSH_S = 15.0
SWEEP_RESERVE_S = 20.0
# The time reserved for the response of functions that SNS, CloudWatch Logs or EventBridge invoke.
INGEST_RESERVE_S = 1.0
# The period over which the alarm on dead letters counts them.
DEAD_LETTER_WINDOW_S = 60.0

# --- single requests --------------------------------------------------------------------------------------------------
PROVIDER_CONNECT_S, PROVIDER_READ_S = 2, 6
# The longest duration of one provider call; adapters use it as their time-outs.
PROVIDER_CALL_S = float(PROVIDER_CONNECT_S + PROVIDER_READ_S)
# The longest duration of a call that creates an SNS endpoint: two attempts of 7 s, and a pause below a second.
ENDPOINT_CALL_S = 15.0
# The time limits of one request to OpenSearch, to the schema registry, to Kafka for offsets, and to Kafka for a record.
OPENSEARCH_REQUEST_S = 10.0
REGISTRY_REQUEST_S = 3.0
CDC_PROGRESS_REQUEST_S = 5.0
SOURCE_RECORD_REQUEST_S = 10.0
# The time limit of a request for credentials, and the time before their expiry at which they are requested again.
CREDENTIALS_REQUEST_S = 2.0
CREDENTIALS_EARLY_S = 300.0
# The lifetime of a signed Kafka token. Source: Amazon MSK developer guide, IAM access control: at most 900 s.
KAFKA_TOKEN_S = 900
# The keys of an OpenID Connect issuer: the time-out of connecting and of reading, the time after which they are read
# again, and the pause between two attempts, which unknown key ids cannot shorten.
TOKEN_KEYS_TIMEOUT_S = 2.0
TOKEN_KEYS_KEPT_S = 3_600.0
TOKEN_KEYS_REFETCH_S = 30.0
# The permitted difference between the clocks of the issuer and of the API.
TOKEN_LEEWAY_S = 30.0
# The first pause before a request to AWS is repeated; pauses double.
AWS_FIRST_PAUSE_S = 0.05

# --- delivery ---------------------------------------------------------------------------------------------------------
# The duration of the lease of a delivery record: a redelivery after a crash waits for its end, and no provider call may
# last longer.
LEASE_S = 12.0
# A lease is renewed when its remaining time exceeds a provider call by only this much.
LEASE_MARGIN_S = 2.0
# The largest difference between the clocks of two functions.
CLOCK_SKEW_S = 1.0
# The pauses (first and last) between two look-ups of another environment's lease, which may be released before it
# expires.
LEASE_POLL_FIRST_S, LEASE_POLL_LAST_S = 0.05, 2.0
# The pauses (first and last) before a failed provider call is repeated within the invocation.
CALL_FIRST_PAUSE_S, CALL_LAST_PAUSE_S = 0.1, 2.0
# How long recipients are published to by one look-up of their sends' controls, their settings and their devices. Then
# they are looked up again.
LOOK_UP_VALID_S = 1.0
# How long failed calls of a group of recipients are repeated before the next group is processed.
CALL_RETRY_BUDGET_S = 3.0
# OUTAGE_TIMEOUT_S after the last accepted message, calls to a provider stop, except for one probe every OUTAGE_PROBE_S
# seconds.
OUTAGE_TIMEOUT_S, OUTAGE_PROBE_S = 10.0, 1.0
# How long no call is made for a disabled platform application.
APPLICATION_PAUSE_S = 30.0
# The time limit of a write to the delivery ledger with its second attempt, and the pauses before it is repeated.
LEDGER_WRITE_S = 6.0
LEDGER_FIRST_PAUSE_S, LEDGER_LAST_PAUSE_S = 0.1, 2.0
# The time reserved for recording delayed recipients and putting them into the delay store.
DELIVERY_RESERVE_S = 3.0
# How long after the change of a device's row delivery waits for its SNS endpoint, which the device registrar creates
# within seconds; and the interval of the look-ups meanwhile.
REGISTRAR_WAIT_S, REGISTRAR_POLL_S = 10.0, 0.25
# A broker shows a committed mark of a dead letter to readers within MARK_SHOWN_S, asked every MARK_POLL_S.
MARK_SHOWN_S, MARK_POLL_S = 10.0, 0.005

# --- the directory ----------------------------------------------------------------------------------------------------
# The interval of Debezium's heartbeats, which prove up to which position of the WAL the directory is complete.
CDC_HEARTBEAT_MS = 1_000
# The time for which confirming the directory waits for change data capture, and the interval of its queries.
DIRECTORY_WAIT_S = 5.0
DIRECTORY_POLL_S = 0.05
# The interval at which device_registrar looks whether the first snapshot is complete, for whose end it waits.
FIRST_CAPTURE_POLL_S = 0.5
# How far a new snapshot of the directory may lag behind the database when it replaces the previous one.
GENERATION_LAG_MS = 15_000
# How far the database's clock may be put back or forward. A heartbeat whose time is later than this after one with a
# higher position is from another write-ahead log.
DATABASE_CLOCK_STEP_MS = 300_000
# The interval at which the scheduler appends a tombstone to each partition of the tables' changelogs: a segment ends at
# the first record after its time, and Kafka does not compact the last segment of a partition.
CHANGELOG_MARKED_S = _HOUR_S
# How long after a row was deleted or changed its earlier values are in the changelogs at most.
CHANGELOG_ERASED_S = 10 * _DAY_S
# The age of a tombstone from which the record of the deletion before it may be compacted away. It is smaller than the
# compaction lag, because Kafka, Kafka Connect and the consumer have clocks of their own.
MISSED_DELETE_AGE_MS = 6 * _DAY_S * 1_000
TEMPLATES_CACHED_S = 5.0
# The time limit of a request to directory_state; that of comparing an audience with all users of a club; and the time
# without a read from Kafka after which it refuses look-ups.
DIRECTORY_STATE_REQUEST_S = 5.0
DIRECTORY_STATE_AUDIENCE_S = 8.0
DIRECTORY_STATE_FED_S = 10.0
# The age up to which a store of directory_state is continued. An older one may miss deletes that the compacted topics
# no longer have.
DIRECTORY_STATE_AGE_MS = 12 * _HOUR_S * 1_000
# The interval of its snapshots.
DIRECTORY_STATE_SNAPSHOT_S = 600.0

# --- schema ids that the registry denies ------------------------------------------------------------------------------
# The registry's answer that it has no schema with an id is cached for this time, so that the records of a batch cause
# one request.
DENIAL_CACHED_S = 1.0
DENIED_SCHEMA_RETRY_S = 30.0
# A denied schema id is forgotten after this time without a denial: the registry may since have assigned it to a schema.
DENIED_SCHEMA_FORGET_S = 300.0
# How long the metrics job asks for the schema id of a record that it has quarantined: the chain may still deliver the
# record.
LATE_SCHEMA_S = 3_600
# A function whose attempts have no end retries a record with an error of its own that is in no table for this time, and
# remembers it for this time after its last attempt.
UNLISTED_RETRY_S, UNLISTED_FORGET_S = 120.0, 300.0

# --- delays and retries -----------------------------------------------------------------------------------------------
# The delays of a retry schedule double from the first to the last; a record without expires_at is retried for the
# lifetime.
RETRY_FIRST_S = 60
RETRY_LAST_S = 30 * 60
RETRY_LIFETIME_S = 3 * _DAY_S
# How long a sweep's claim of a due record is valid: longer than an invocation.
CLAIM_S = 90
# Minutes after which no function writes to a bucket of due records any more.
DELAY_BUCKET_CLOSED_MIN = 10
# A pause that lasts this long cancels the send: the control that holds its records is not kept for ever.
PAUSE_LIMIT_S = 30 * _DAY_S
# How long sweeps look for delayed records of a send after its control changed: a function that read the earlier control
# may still store one.
CONTROL_SWEPT_S = 600
# A scheduled send can be moved until this long before its send_at, which another function's clock may have reached.
RESCHEDULE_MARGIN_S = 10
# The delays before a receipt whose message is unknown is looked up again. If the message is still unknown after the
# last delay, its outcome record was lost (docs/decisions/031), or another application of the account sent it.
RECEIPT_RETRY_DELAYS_S = (60, 300, 1_800)

# --- unsubscribe links ------------------------------------------------------------------------------------------------
# How long the link in an e-mail is valid, and how long a function uses the keys that it has read.
UNSUBSCRIBE_VALID_S = 400 * _DAY_S
SIGNING_KEYS_CACHED_S = 300.0

# --- webhooks ---------------------------------------------------------------------------------------------------------
# The time limit of one attempt, name resolution included. The specification Standard Webhooks recommends 15 to 30 s.
WEBHOOK_ATTEMPT_S = 15.0
# The delays after failed attempts: 8 attempts within 28 hours.
WEBHOOK_RETRY_DELAYS_S = (5, 300, 1_800, 2 * _HOUR_S, 5 * _HOUR_S, 10 * _HOUR_S, 10 * _HOUR_S)
# The longest delay that an endpoint's Retry-After causes.
WEBHOOK_RETRY_AFTER_LIMIT_S = _DAY_S
# How long the previous secret of an endpoint also signs.
WEBHOOK_SECRET_OVERLAP_S = _DAY_S
# How long before its end an access token for an endpoint is renewed, and the age from which one that is refused is; the
# validity of a token whose server names none, and the longest; how long an environment that requests one keeps the
# others from it, and after which pause they look for it again.
WEBHOOK_TOKEN_RENEWED_S = 60.0
WEBHOOK_TOKEN_VALID_S, WEBHOOK_TOKEN_LONGEST_S = 300.0, _DAY_S
WEBHOOK_TOKEN_REQUEST_S = 20.0
WEBHOOK_TOKEN_PAUSE_S = 0.1
# The time without a successful attempt after which a failed one disables the endpoint, and the time for which the
# attempts of its delivery must have failed: one failure after days without an event is not an outage.
WEBHOOK_DISABLED_AFTER_S = 5 * _DAY_S
WEBHOOK_FAILING_DELIVERY_S = 12 * _HOUR_S
# The time that a search for events reserves for its last page.
WEBHOOK_EVENTS_RESERVE_S = 15.0
# How long messages with events that were given up are kept for the tenant of their endpoint. One is listed after it has
# settled: others that were given up at the same time are stored by then, and none appears before one that was listed.
WEBHOOK_DEAD_LETTERS_KEPT_S = 14 * _DAY_S
WEBHOOK_DEAD_LETTERS_SETTLED_S = 60
# How long masscomm's own events are kept, so that each is produced once, and can be sent again.
OWN_EVENTS_KEPT_S = 30 * _DAY_S
# How long after it an event is found: an older one may have been recorded, and its record have expired.
WEBHOOK_EVENTS_FOUND_S = 29 * _DAY_S
# How often webhook_events publishes the implicit subscription of each endpoint again.
SUBSCRIPTIONS_RENEWED_S = _DAY_S

# --- own documents of the directory -----------------------------------------------------------------------------------
# The age of a write at which the sweep publishes its document: no function that has written it still runs, so no record
# of an earlier write follows that of the sweep.
DOCUMENTS_SETTLED_S = 90.0
# The time of the scheduler's sweeps in which it publishes documents, and the part that is left at the start of a page.
DOCUMENTS_SWEEP_S = 15.0
DOCUMENTS_SWEEP_RESERVE_S = 2.0

# --- categories -------------------------------------------------------------------------------------------------------
# How long after its change a version of a category begins.
CATEGORY_BEGINS_AFTER_S = 60.0
# How long a function or the job uses the versions that it has read.
CATEGORIES_CACHED_S = 30.0

# --- frequency caps ---------------------------------------------------------------------------------------------------
# The longest window of a cap, and how much longer than the window the places of a user are kept.
LONGEST_CAP_S = 30 * _DAY_S
CAP_PLACES_LONGER_S = _DAY_S
# The part of an invocation in which preference_checker takes places. The recipients that are left are passed on.
CAPS_COUNTED_S = 10.0

# --- digests ----------------------------------------------------------------------------------------------------------
# The longest window of a digest.
LONGEST_DIGEST_S = 7 * _DAY_S
# How long a digest and its members are kept after it is due: a member that is paused longer joins another one.
DIGESTS_KEPT_S = 16 * _DAY_S

# --- pace -------------------------------------------------------------------------------------------------------------
# The longest time that the pace of a send may take, and how much longer than the send its state is kept.
LONGEST_PACE_S = 7 * _DAY_S
PACE_BOOKS_LONGER_S = 7 * _DAY_S

# --- fallbacks --------------------------------------------------------------------------------------------------------
# How long a fallback may wait, and how long its state is kept after the last change.
LONGEST_FALLBACK_S = 7 * _DAY_S
FALLBACKS_KEPT_S = 75 * _DAY_S
# How long preference_checker waits in an invocation until receipts has consumed the outcomes, and how often it looks.
OUTCOMES_WAIT_S = 5.0
OUTCOMES_POLL_S = 0.25

# --- events -----------------------------------------------------------------------------------------------------------
# How long the REST API recognises the id of an event that it has accepted.
EVENT_IDS_KEPT_S = _DAY_S
# How long event_matcher uses an event type that it has read.
EVENT_TYPES_CACHED_S = 10.0
# How long event_matcher uses the permissions of a rule's owner, as long as API Gateway caches the authorizer's answer.
RULE_OWNERS_CACHED_S = 60.0
# How far the signed time of an incoming webhook may be from that of its receipt, as Stripe's libraries permit.
INCOMING_WEBHOOK_AGE_S = 300.0
# When a sender may repeat a webhook that the queue has not taken.
DOOR_RETRY_AFTER_S = 60
# How long webhook_receiver uses a source that it has read.
WEBHOOK_SOURCES_CACHED_S = 10.0
# How long the previous secret of a source is accepted.
SOURCE_SECRET_OVERLAP_S = _DAY_S
# How long the refused webhooks of a source are listed.
REFUSALS_KEPT_S = 14 * _DAY_S
# The age at which a sweep publishes changed subscriptions that no function has published: no function that has stored
# them still runs.
SUBSCRIPTIONS_SWEPT_AFTER_S = 60.0
# The time that this sweep reserves for a change: its flush, and the writes to the store.
SUBSCRIPTIONS_SWEEP_RESERVE_S = 20.0
# How long after its last read event_matcher reads only the later records of subscriptions. A compacted topic keeps the
# record of a deletion for a day (Kafka's delete.retention.ms).
SUBSCRIPTIONS_FOLLOWED_S = _DAY_S / 2
# The time limit of an attempt for an event, name resolution included. What takes longer is repeated as other webhooks
# are, with WEBHOOK_ATTEMPT_S: a partition has one batch in flight, and a slow endpoint must not delay the others.
EVENT_ATTEMPT_S = 3.0
# How long webhook_sender uses an endpoint that it has read: a control is read again before publishing after a second.
ENDPOINTS_CACHED_S = 1.0
# How long webhook_sender begins attempts of a batch; later messages are stored, so that they delay no other endpoint.
# The second is that of repeated messages, whose attempts may take WEBHOOK_ATTEMPT_S.
EVENT_BATCH_S, EVENT_RETRIES_BATCH_S = 5.0, 20.0
# The time that webhook_sender reserves for the writes after its last attempt.
EVENT_SENDER_RESERVE_S = 10.0
# How long after it was due the first message of a key is lost, so that the following ones are sent without it.
ORDER_LOST_S = _HOUR_S
# The least and the most seconds that a message waits for others in the delay store: its sweep may need a minute.
EVENT_LEAST_WAIT_S, EVENT_MOST_WAIT_S = 60, _HOUR_S
# How long webhook_sender uses a connection: the addresses of a host are then resolved again.
EVENT_CONNECTION_S = 60.0

# How long the announcement of a changed send is kept.
ANNOUNCEMENTS_KEPT_S = 8 * _DAY_S

# --- broadcast queues -------------------------------------------------------------------------------------------------
# How long an environment caches the queue of a tenant; the ages at which the queue lease of a broadcasting tenant is
# renewed and expires.
QUEUE_CACHED_S = 5.0
QUEUE_RENEW_MS = 10_000
QUEUE_LEASE_MS = 60_000
# The renewal time of a lease is ignored if it is further in the future than clocks can differ.
QUEUE_CLOCK_SKEW_MS = 60_000
# After an error, or a response slower than QUEUE_SLOW_S, the store of queue leases is not used for QUEUE_PAUSE_S
# seconds. So at most one send waits for it.
QUEUE_SLOW_S = 0.2
QUEUE_PAUSE_S = 30.0

# --- metrics requests -------------------------------------------------------------------------------------------------
METRICS_CONNECT_S = 3
METRICS_RECONNECT_S = 1
# How long a request about a send waits for a connection: it can be answered without counts.
COUNTS_WAIT_S = 0.8
METRICS_STATEMENT_S = 10
# How long a caller waits for the answer of a statement: the server may hang, and then keeps no limit of its own.
METRICS_ANSWER_S = 12
# Limits of the stream of changed metrics: the longest wait, the interval of its polls (each reads one row by its key),
# the time reserved for the query after the wait, and the pause of a caller that gets no slot.
STREAM_WAIT_S = 20
STREAM_POLL_S = 0.5
# The interval of the polls of one send, whose results are readable as soon as its recipients are notified.
SEND_POLL_S = 0.125
STREAM_RESERVE_S = 8.0
STREAM_RETRY_AFTER_S = 5
# After which a caller may repeat a costly request that is one too many at the same time.
COSTLY_RETRY_AFTER_S = 5

# --- audiences --------------------------------------------------------------------------------------------------------
# The time that a count reserves for its response: reading one more page, and its users' settings and devices.
COUNT_RESERVE_S = 12.0
# A dry run begins no further look-up with less than this remaining, and reads no further page of its audience with less
# than the second.
DRY_RUN_RESERVE_S, DRY_RUN_AUDIENCE_RESERVE_S = 12.0, 20.0

# The time after which a record hands the rest of its audience on, so that the others of its partition do not wait.
EXPANSION_SHARE_S = 10.0
# The age of a send to an audience up to which the rest is handed on; the rest of an older one stays in its record.
EXPANSION_HANDED_ON_S = _DAY_S // 2

# --- schedules --------------------------------------------------------------------------------------------------------
# The least time between a change of a schedule and the release of its next record, which is put before the change is
# stored.
SCHEDULE_CHANGED_S = 60
# An occurrence of a schedule that is later than this is skipped.
OCCURRENCE_LATE_S = 900
# The longest time after an occurrence at which its send expires.
OCCURRENCE_EXPIRES_S = 7 * _DAY_S

# --- retentions -------------------------------------------------------------------------------------------------------
# How long the results of delivery are kept: a record that is replayed after this time is published again.
LEDGER_KEPT_S = 16 * _DAY_S
# How long a sender of events knows which messages of a batch it has sent: as long as the batch may come again.
SENT_POSITIONS_KEPT_S = 4 * _DAY_S
# How long the progress of a batch is kept that its event source mapping retries whole.
BATCH_MARKS_KEPT_S = _DAY_S
# The item of a lease is kept longer than the recorded slices, so that a record without a lease item has no slices.
LEASE_KEPT_S = LEDGER_KEPT_S + _DAY_S
# How long decisions are kept: a record that is replayed after this time may get other decisions.
DECISIONS_KEPT_S = 16 * _DAY_S
# An event that is older than this when its record is produced is not counted: the clock of its producer is wrong.
TOO_OLD_S = 40 * _DAY_S
# How long the metrics job keeps the ids of counted records at least: a record that is produced again after this time is
# counted again.
COUNTED_IDS_KEPT_S = 16 * _DAY_S
# How long after its record a dead letter of a send can be replayed; later its ids, decisions and results may be gone.
REPLAYED_WITHIN_S = 6 * _DAY_S
# DynamoDB deletes a delayed record this long after it was due.
DELAYED_KEPT_S = 30 * _DAY_S
QUEUE_LEASES_KEPT_S = 7 * _DAY_S
# How long an idempotency key is kept; afterwards it may be used for another request.
IDEMPOTENCY_KEPT_S = _DAY_S
# How long a send with a control is kept: longer than any record of the send, whose send_at may be a year ahead.
CONTROLLED_SENDS_KEPT_S = 450 * _DAY_S
# How long an occurrence of a schedule is kept after it was recorded: longer than its record may come again.
OCCURRENCES_KEPT_S = 60 * _DAY_S
# How long an entry of the audit log is kept.
AUDIT_KEPT_S = 400 * _DAY_S
# How long the use of a window of a key's limit is kept after its end: longer than a request with a key is repeated.
KEY_USAGE_KEPT_S = 2 * _DAY_S
# How long expired slots of polls are kept; DynamoDB deletes them later.
POLL_SLOTS_KEPT_S = _HOUR_S
# How long a send is registered after the latest of its times (masscomm.domain.sends): for as long its id is compared.
REGISTERED_SENDS_KEPT_S = 8 * _DAY_S
# How long the message of a send is kept after its time.
MESSAGES_KEPT_S = 30 * _DAY_S
# How far back the register is searched for sends that are not counted.
LISTED_SENDS_S = 8 * _DAY_S
# How much longer than the send the chunks of its audience are kept: records may be redelivered or replayed until then.
EXPANSIONS_OUTLIVE_S = 8 * _DAY_S
# How long sent messages are kept for receipts: twice the longest delay of a receipt from a carrier or a mail server.
SENT_MESSAGES_KEPT_S = 7 * _DAY_S
SENT_MESSAGES_PURGE_S = float(_HOUR_S)
# How long an answer START is remembered, so that an older STOP that arrives later has no effect.
SMS_STARTS_KEPT_S = 45 * _DAY_S
# The metrics database, in whole days in addition to the present one: the log of recipients and quarantined positions.
# Quarantined records that the archive has without a problem stay: the archive is kept for longer.
RECIPIENT_LOG_KEPT_DAYS = 30
QUARANTINE_KEPT_DAYS = 180
# The archive of the metrics, in whole days in addition to the present one.
ARCHIVE_KEPT_DAYS = 400
# The counts by minute, hour and day, in whole partitions (months, for days years); refused positions; and sends, since
# their first record was counted.
MINUTES_KEPT_DAYS = 92
HOURS_KEPT_DAYS = 800
DAYS_KEPT_DAYS = 3_660
REDELIVERED_KEPT_DAYS = 440
# The log of webhook messages, and their counts by minute, of which an endpoint has up to one per event type.
WEBHOOK_LOG_KEPT_DAYS = 30
WEBHOOK_MINUTES_KEPT_DAYS = 7
# The latencies of notifications by minute, which have a row for each category, channel and bin.
LATENCY_MINUTES_KEPT_DAYS = 30
SENDS_KEPT_DAYS = 450
# Small sends, after their last change; their counts stay.
SMALL_SENDS_KEPT_DAYS = 30
# How long webhook_events may be down without missing the change of a send.
SEND_CHANGES_KEPT_DAYS = 8

# The rules between these durations, each with its reason. timeout_s and every_s are read from functions/functions.yaml,
# kept_s, segment_s, due_s and tombstone_s from schemas/topics.yaml.
RULES: Mapping[str, str] = {
    "CHAIN_TIMEOUT_S == timeout_s('preference_checker') == timeout_s('builder') == timeout_s('delivery')": (
        "the scheduler recognises a function that took too long by its time limit"
    ),
    "INGEST_RESERVE_S <= FLUSH_RESERVE_S < PRODUCER_MESSAGE_S": "a flush ends in the time that is reserved for it",
    "KAFKA_RECONNECT_S < KAFKA_RECONNECT_MOST_S * 3 / 2 < PRODUCER_MESSAGE_S": (
        "a producer connects again before its records expire"
    ),
    "PRODUCER_MESSAGE_S + FLUSH_RESERVE_S < CHAIN_TIMEOUT_S": "every report arrives before the function ends",
    "RESULTS_PUT_S < FLUSH_RESERVE_S / 2": "the results of small sends are stored before the function ends",
    "PRODUCER_MESSAGE_S + 2 * CLOCK_SKEW_S < RESULTS_UNCOUNTED_S": "an older result is counted, or has no record",
    "timeout_s('send_handler') <= GATEWAY_TIMEOUT_S < CHAIN_TIMEOUT_S": (
        "API Gateway has the response of each request, and the functions of the chain serve no route"
    ),
    "PRODUCER_MESSAGE_S < SEND_FLUSH_S < timeout_s('send_handler')": "a request is answered by Kafka's reports",
    "SEND_FLUSH_S + 3 * IDEMPOTENCY_CALL_S + SENDER_CHECK_S + ACCEPTED_CALL_S + WARNINGS_S"
    " < timeout_s('send_handler')": "a request with a key is answered, too",
    "100 * SENDER_CHECK_S < SENDER_CHECK_VALID_S < 900": "few sends wait for SES, and a corrected sender is used soon",
    "PRODUCER_MESSAGE_S < API_FLUSH_S < timeout_s('preferences_handler') < PREFERENCES_SWEPT_AFTER_S": (
        "a change is produced by its request, or by a sweep"
    ),
    "API_FLUSH_S < PREFERENCES_SWEEP_RESERVE_S < timeout_s('preferences_handler')": (
        "a page of changes is produced within the invocation"
    ),
    "366 * 86_400 < UNSUBSCRIBE_VALID_S < 2 * 366 * 86_400": "a link outlives a year, and keys end",
    "timeout_s('preferences_handler') < SIGNING_KEYS_CACHED_S < UNSUBSCRIBE_VALID_S": "keys are read again in time",
    "timeout_s('send_handler') < IDEMPOTENCY_KEPT_S": "a key is kept while its request is executed",
    "timeout_s('send_handler') < SCHEDULE_CHANGED_S": "a schedule is stored before its next record is released",
    "5 * every_s('scheduler') <= OCCURRENCE_LATE_S <= 15 * 60": (
        "an occurrence may wait for some sweeps, and no rule has another one before it is late"
    ),
    "24 * OCCURRENCE_LATE_S < OCCURRENCE_EXPIRES_S <= OCCURRENCES_KEPT_S / 8": (
        "a send that expires can be delivered, and its occurrence is listed until then"
    ),
    "kept_s('audience') + DELAYED_KEPT_S + REPLAYED_WITHIN_S < OCCURRENCES_KEPT_S": (
        "a record that comes again finds the occurrence that it has made"
    ),
    "IDEMPOTENCY_KEPT_S + timeout_s('send_handler') < min(LEDGER_KEPT_S, DECISIONS_KEPT_S)": (
        "the chain knows the records that a repeated request produces again"
    ),
    "PRODUCER_MESSAGE_S <= SWEEP_FLUSH_S < SWEEP_RESERVE_S < timeout_s('scheduler')": (
        "the flush and the writes end before the function does"
    ),
    "(366 + 3) * 86_400 + RETRY_LIFETIME_S + DELAYED_KEPT_S + kept_s('dead-letter') < CONTROLLED_SENDS_KEPT_S": (
        "a cancelled send's last record finds the cancellation: after send_at, quiet hours, retries and a replay"
    ),
    "CLAIM_S + timeout_s('scheduler') + CHAIN_TIMEOUT_S < CONTROL_SWEPT_S": (
        "no record is stored under the earlier control after the last sweep for the send"
    ),
    "PAUSE_LIMIT_S + RETRY_LIFETIME_S + DELAYED_KEPT_S < CONTROLLED_SENDS_KEPT_S": "a pause reaches its limit",
    "CLOCK_SKEW_S < RESCHEDULE_MARGIN_S": "a send that can be moved is not released yet",
    "kept_s('send.api') <= REGISTERED_SENDS_KEPT_S": "a send is known until it is counted",
    "LISTED_SENDS_S <= REGISTERED_SENDS_KEPT_S": "a listed send has its item",
    "REGISTERED_SENDS_KEPT_S < MESSAGES_KEPT_S == RECIPIENT_LOG_KEPT_DAYS * 86_400 < SENDS_KEPT_DAYS * 86_400": (
        "a message is shown with its recipients, and the send is known for longer"
    ),
    "CONTROLLED_SENDS_KEPT_S < 2 * 366 * 86_400": "the table does not grow for ever",
    "366 * 86_400 < AUDIT_KEPT_S < 2 * 366 * 86_400": "the log covers a year, and does not grow for ever",
    "IDEMPOTENCY_KEPT_S + timeout_s('send_handler') < KEY_USAGE_KEPT_S": "a repeated request is not counted again",
    "timeout_s('scheduler') < CLAIM_S": "no second sweep claims a record while the first still releases it",
    "CLAIM_S + timeout_s('scheduler') < DELAY_BUCKET_CLOSED_MIN * 60": "no function writes to a closed bucket",
    "CALL_FIRST_PAUSE_S < LOOK_UP_VALID_S <= CDC_HEARTBEAT_MS / 1_000": (
        "a portion of recipients is worth a look-up, and an opt-out has an effect on delivery as soon as on new sends"
    ),
    "PROVIDER_CALL_S < LEASE_S": "no provider call outlives the lease",
    "LEASE_S + CLOCK_SKEW_S + PROVIDER_CALL_S < timeout_s('delivery')": (
        "a redelivered record waits for the lease of a crashed invocation within its own"
    ),
    "PROVIDER_CALL_S + LEASE_MARGIN_S < LEASE_S": "a lease is renewed before it is too short for a call",
    "CALL_FIRST_PAUSE_S < CALL_LAST_PAUSE_S <= LEASE_MARGIN_S": "the call after a pause still ends within the lease",
    "CALL_RETRY_BUDGET_S + PROVIDER_CALL_S < LEASE_S": "a group's retries end before a lease does",
    "LEDGER_WRITE_S < LEASE_S": "a write of the ledger ends within a lease",
    "LEDGER_FIRST_PAUSE_S < LEDGER_LAST_PAUSE_S < LEDGER_WRITE_S": "a repeated write pauses for less than it takes",
    "LEASE_POLL_FIRST_S < LEASE_POLL_LAST_S < LEASE_S": "a released lease is noticed before it would have expired",
    "OUTAGE_PROBE_S < OUTAGE_TIMEOUT_S < APPLICATION_PAUSE_S": "an outage is probed; an application is not",
    "OUTAGE_TIMEOUT_S + PROVIDER_CALL_S + DELIVERY_RESERVE_S + LEDGER_WRITE_S < timeout_s('delivery')": (
        "delayed recipients are recorded in the invocation that noticed the outage"
    ),
    "REGISTRAR_POLL_S < REGISTRAR_WAIT_S < timeout_s('delivery')": "endpoints are awaited within the invocation",
    "MARK_POLL_S < MARK_SHOWN_S < timeout_s('operations_handler')": "a mark is awaited within the invocation",
    "ENDPOINT_CALL_S < timeout_s('device_registrar')": "a call ends within the invocation",
    "FIRST_CAPTURE_POLL_S + ENDPOINT_CALL_S < timeout_s('device_registrar')": (
        "an invocation that has waited for the directory can register devices"
    ),
    "OPENSEARCH_REQUEST_S < timeout_s('cdc_consumer')": "a request ends within the invocation",
    "DIRECTORY_STATE_REQUEST_S <= OPENSEARCH_REQUEST_S": "the state of the directory answers in the time of OpenSearch",
    "CDC_PROGRESS_REQUEST_S < DIRECTORY_STATE_FED_S <= GENERATION_LAG_MS / 1000": (
        "a feeder that waits for Kafka is not taken for a dead one, and a dead one not for long"
    ),
    "DIRECTORY_STATE_AUDIENCE_S < DIRECTORY_STATE_REQUEST_S + DIRECTORY_WAIT_S < COUNT_RESERVE_S": (
        "an audience that takes too long is refused while its caller waits, and a count is answered"
    ),
    "10 * DIRECTORY_STATE_SNAPSHOT_S < DIRECTORY_STATE_AGE_MS / 1000": "a new task can continue the newest snapshot",
    "DIRECTORY_STATE_AGE_MS / 1000 < kept_s('cdc')": "a store that is continued has missed no delete",
    "REGISTRY_REQUEST_S + OPENSEARCH_REQUEST_S + DIRECTORY_WAIT_S < CHAIN_TIMEOUT_S - FLUSH_RESERVE_S": (
        "a batch of unknown schema and absent rows is answered in one invocation"
    ),
    "SOURCE_RECORD_REQUEST_S < timeout_s('scheduler')": "a request ends within the invocation",
    "CREDENTIALS_REQUEST_S < CREDENTIALS_EARLY_S < KAFKA_TOKEN_S": "credentials are renewed before they expire",
    "TOKEN_KEYS_TIMEOUT_S < TOKEN_KEYS_REFETCH_S < TOKEN_KEYS_KEPT_S": "known keys are used between two attempts",
    "CLOCK_SKEW_S < TOKEN_LEEWAY_S < TOKEN_KEYS_KEPT_S": "a new token is valid at once, an old one not for long",
    "AWS_FIRST_PAUSE_S < CREDENTIALS_REQUEST_S": "a pause is shorter than a request",
    "DIRECTORY_POLL_S < CDC_HEARTBEAT_MS / 1000 < DIRECTORY_WAIT_S <= CDC_PROGRESS_REQUEST_S": (
        "a confirmation sees at least one heartbeat"
    ),
    "CDC_HEARTBEAT_MS < GENERATION_LAG_MS": "a generation can be as recent as it has to be",
    "GENERATION_LAG_MS < DATABASE_CLOCK_STEP_MS": "heartbeats of two connectors are of one write-ahead log",
    "every_s('scheduler') < CHANGELOG_MARKED_S < segment_s('cdc') < kept_s('cdc')": (
        "a segment ends soon after its time, and few tombstones are written for that"
    ),
    "MISSED_DELETE_AGE_MS / 1000 + 86_400 <= kept_s('cdc')": "no younger tombstone has lost its deletion",
    "kept_s('cdc') <= due_s('cdc')": "Kafka refuses a topic whose records are due before they may be removed",
    "max(kept_s('cdc') + segment_s('cdc') + CHANGELOG_MARKED_S, due_s('cdc')) + 86_400 <= CHANGELOG_ERASED_S": (
        "the rows of an erased person are removed in time, even if the broker compacts nothing for a day"
    ),
    "max(CHANGELOG_ERASED_S, DELAYED_KEPT_S) <= tombstone_s('cdc')": (
        "a reader that returns after the longest outage learns which rows were deleted"
    ),
    "TEMPLATES_CACHED_S < CHAIN_TIMEOUT_S": "a changed template applies to the next invocation",
    "DENIAL_CACHED_S < DENIED_SCHEMA_RETRY_S < DENIED_SCHEMA_FORGET_S": (
        "an id is asked for again before it is dead-lettered, and known until then"
    ),
    "DENIED_SCHEMA_RETRY_S + every_s('scheduler') + timeout_s('scheduler') + CHAIN_TIMEOUT_S < LATE_SCHEMA_S": (
        "a record that the chain decodes once its schema is registered late is counted, too"
    ),
    "LATE_SCHEMA_S + 86_400 <= min(COUNTED_IDS_KEPT_S, LEDGER_KEPT_S, DECISIONS_KEPT_S)": (
        "a record that is produced again for its late schema is neither counted nor published twice"
    ),
    "UNLISTED_RETRY_S < UNLISTED_FORGET_S": "a record is known until it is given up",
    "every_s('scheduler') <= RETRY_FIRST_S < RETRY_LAST_S < RETRY_LIFETIME_S": "a delay ends with a sweep",
    "RETRY_LIFETIME_S <= LEDGER_KEPT_S": "results are kept while a record is retried",
    "RETRY_LIFETIME_S < DELAYED_KEPT_S": "a delayed record outlives an outage of the scheduler",
    "list(RECEIPT_RETRY_DELAYS_S) == sorted(RECEIPT_RETRY_DELAYS_S)": "delays grow",
    "sum(RECEIPT_RETRY_DELAYS_S) < SENT_MESSAGES_KEPT_S": "a receipt finds its message while it is retried",
    "SENT_MESSAGES_PURGE_S < SENT_MESSAGES_KEPT_S": "old messages are deleted in time",
    "kept_s('receipt') + kept_s('dead-letter') < SMS_STARTS_KEPT_S": "a replayed STOP finds the newer START",
    "list(WEBHOOK_RETRY_DELAYS_S) == sorted(WEBHOOK_RETRY_DELAYS_S)": "delays grow",
    "sum(WEBHOOK_RETRY_DELAYS_S) < WEBHOOK_DISABLED_AFTER_S < OWN_EVENTS_KEPT_S": (
        "an endpoint has more time than one event, and its events can be requested again"
    ),
    "WEBHOOK_FAILING_DELIVERY_S < sum(WEBHOOK_RETRY_DELAYS_S[:-1])": "a delivery reaches it while it is tried",
    "timeout_s('webhook_retry_sender') <= WEBHOOK_DEAD_LETTERS_SETTLED_S < WEBHOOK_DEAD_LETTERS_KEPT_S": (
        "a dead letter is stored by the invocation that gave it up, before a later one is listed"
    ),
    "WEBHOOK_DISABLED_AFTER_S < WEBHOOK_DEAD_LETTERS_KEPT_S": "what an outage has ended can be sent again after it",
    "WEBHOOK_EVENTS_FOUND_S < OWN_EVENTS_KEPT_S": "no event is produced again after its record has expired",
    "86_400 < ANNOUNCEMENTS_KEPT_S <= REGISTERED_SENDS_KEPT_S": "an outage loses no change",
    "timeout_s('webhook_retry_sender') < WEBHOOK_SECRET_OVERLAP_S < WEBHOOK_DISABLED_AFTER_S": (
        "a receiver has time to change its secret, and the previous one ends"
    ),
    "WEBHOOK_RETRY_AFTER_LIMIT_S < OWN_EVENTS_KEPT_S": "an event is recognised while its message waits",
    "every_s('webhook_events') < SUBSCRIPTIONS_RENEWED_S": "few sweeps publish every subscription",
    "WEBHOOK_ATTEMPT_S < WEBHOOK_TOKEN_REQUEST_S < WEBHOOK_TOKEN_RENEWED_S < WEBHOOK_TOKEN_VALID_S / 2": (
        "a token is renewed by one environment, while the others use it"
    ),
    "WEBHOOK_TOKEN_VALID_S <= 600 < WEBHOOK_TOKEN_LONGEST_S / 10": "tokens of an unknown validity are renewed often",
    "WEBHOOK_TOKEN_LONGEST_S <= WEBHOOK_SECRET_OVERLAP_S": "a token does not outlive previous credentials",
    "0.05 <= WEBHOOK_TOKEN_PAUSE_S < EVENT_ATTEMPT_S / 20": "an attempt waits little longer than the request takes",
    "86_400 <= EVENT_IDS_KEPT_S < kept_s('event')": "an id is recognised for a day, and not after its event has ended",
    "DOOR_RETRY_AFTER_S < INCOMING_WEBHOOK_AGE_S": "a webhook that is sent again later is not too old by then",
    "INCOMING_WEBHOOK_AGE_S < EVENT_IDS_KEPT_S": "a webhook that is sent again within its age is recognised",
    "timeout_s('webhook_receiver') / 10 < WEBHOOK_SOURCES_CACHED_S < timeout_s('webhook_receiver')": (
        "few batches read sources, and a change of one applies soon"
    ),
    "WEBHOOK_SOURCES_CACHED_S < SOURCE_SECRET_OVERLAP_S <= REFUSALS_KEPT_S": (
        "a sender has time to change its secret, and a refusal is listed when it has not"
    ),
    "CATEGORIES_CACHED_S + CLOCK_SKEW_S < CATEGORY_BEGINS_AFTER_S": (
        "a version is known everywhere before a send can have its time"
    ),
    "CHAIN_TIMEOUT_S * 2 / 3 + CAPS_COUNTED_S + FLUSH_RESERVE_S < CHAIN_TIMEOUT_S": (
        "the largest batch is looked up and passed on after places were taken"
    ),
    "14 * 3_600 + 12 * 3_600 - 86_400 < CAP_PLACES_LONGER_S < LONGEST_CAP_S": (
        "the places of a day are there after a user has moved to another time zone"
    ),
    "2 * 86_400 < LONGEST_DIGEST_S < DIGESTS_KEPT_S / 2": "a digest outlives a pause of some days",
    "DECISIONS_KEPT_S <= DIGESTS_KEPT_S < 2 * DECISIONS_KEPT_S": (
        "a record whose decision may come again finds its digest, and texts are not kept for months"
    ),
    "86_400 <= LONGEST_PACE_S <= PACE_BOOKS_LONGER_S": "the last planned recipient finds the state of the pace",
    "LONGEST_PACE_S + RETRY_LIFETIME_S < DECISIONS_KEPT_S": "the last recipient is decided about once",
    "LONGEST_FALLBACK_S == LONGEST_PACE_S": "both have one form",
    "OUTCOMES_POLL_S < OUTCOMES_WAIT_S <= CDC_PROGRESS_REQUEST_S": "a wait takes no longer than a request",
    "LONGEST_FALLBACK_S + PAUSE_LIMIT_S + RETRY_LIFETIME_S + DELAYED_KEPT_S < FALLBACKS_KEPT_S": (
        "a fallback that waits knows the earlier notification"
    ),
    "timeout_s('event_matcher') / 10 < EVENT_TYPES_CACHED_S < timeout_s('event_matcher')": (
        "few batches read types, and a change of one applies soon"
    ),
    "CHAIN_TIMEOUT_S < BATCH_MARKS_KEPT_S": "a batch is redelivered soon after its time-out",
    "kept_s('webhook') < SENT_POSITIONS_KEPT_S": "a message that was recorded before a kill is not sent again",
    "kept_s('webhook.batched') < SENT_POSITIONS_KEPT_S": "and neither is one of a batch",
    "kept_s('webhook.slow') < SENT_POSITIONS_KEPT_S < DELAYED_KEPT_S": "and its result is there",
    "timeout_s('event_matcher') / 2 <= RULE_OWNERS_CACHED_S <= 60": (
        "few batches read the owners of rules, and a revoked key sends nothing a minute later"
    ),
    "7 * 86_400 <= kept_s('event')": "an outage of a week loses no event",
    "timeout_s('webhook_sender') < kept_s('webhook')": "a message outlives the attempts of its record",
    "timeout_s('webhook_batch_sender') < kept_s('webhook.batched')": "and so does one of a batch",
    "timeout_s('webhook_retry_sender') < kept_s('webhook.slow')": "and so does one that is attempted again",
    "WEBHOOK_DISABLED_AFTER_S < kept_s('webhook_outcome')": "an outage of the metrics job loses no result",
    "SUBSCRIPTIONS_SWEPT_AFTER_S < kept_s('subscription')": "a deletion is published before its record is removed",
    "max(timeout_s('device_registrar'), timeout_s('receipts'), timeout_s('preferences_handler')) "
    "< DOCUMENTS_SETTLED_S": ("no function that has written a document still publishes it when the sweep does"),
    "DOCUMENTS_SETTLED_S < 2 * every_s('scheduler')": "a document that a crash left out is on the topic in minutes",
    "DOCUMENTS_SETTLED_S + 2 * every_s('scheduler') < kept_s('directory_document')": (
        "a document that a crash left out is on the topic before records of its time are removed"
    ),
    "2 * DOCUMENTS_SWEEP_RESERVE_S < DOCUMENTS_SWEEP_S <= timeout_s('scheduler') / 4": (
        "each index gets a page in each sweep, and due records the greater part of the time"
    ),
    "API_FLUSH_S < SUBSCRIPTIONS_SWEEP_RESERVE_S < timeout_s('events_api') < SUBSCRIPTIONS_SWEPT_AFTER_S": (
        "a sweep ends in time, and publishes no change whose request still runs"
    ),
    "SUBSCRIPTIONS_SWEPT_AFTER_S < 3 * timeout_s('events_api')": "a change that a crash left out is soon published",
    "3_600 < SUBSCRIPTIONS_FOLLOWED_S < 86_400": "no deletion is missed, and few batches read every subscription",
    "0.5 <= ENDPOINTS_CACHED_S <= 1": "a disabled endpoint gets nothing a second later, and few batches read endpoints",
    "2 <= EVENT_ATTEMPT_S < WEBHOOK_ATTEMPT_S / 3": "a slow endpoint delays the others of its partition for seconds",
    "3 * EVENT_ATTEMPT_S < EVENT_SENDER_RESERVE_S < timeout_s('webhook_sender') / 4": "an attempt is recorded in time",
    "every_s('scheduler') <= EVENT_LEAST_WAIT_S < EVENT_MOST_WAIT_S": "no message waits longer than permitted",
    "10 * every_s('scheduler') <= ORDER_LOST_S < DELAYED_KEPT_S": "a message that a sweep left out is not lost",
    "EVENT_MOST_WAIT_S < WEBHOOK_DISABLED_AFTER_S": "messages that wait are sent before an endpoint is disabled",
    "EVENT_ATTEMPT_S < EVENT_BATCH_S < EVENT_RETRIES_BATCH_S": "a batch of first attempts ends in seconds",
    "EVENT_RETRIES_BATCH_S + WEBHOOK_ATTEMPT_S + EVENT_SENDER_RESERVE_S < timeout_s('webhook_retry_sender')": (
        "the last attempt of a batch is recorded in time"
    ),
    "10 * EVENT_ATTEMPT_S < EVENT_CONNECTION_S <= timeout_s('webhook_sender')": (
        "connections are shared by many messages, and follow a change of addresses"
    ),
    "METRICS_ANSWER_S < WEBHOOK_EVENTS_RESERVE_S < timeout_s('webhook_events') / 2": (
        "a page is read within the invocation; if Kafka is slow, its events are produced again"
    ),
    "QUEUE_CACHED_S * 1000 < QUEUE_RENEW_MS < QUEUE_LEASE_MS / 3": "a lease survives two lost renewals",
    "QUEUE_CACHED_S * 1000 + CLOCK_SKEW_S * 1000 <= QUEUE_CLOCK_SKEW_MS <= QUEUE_LEASE_MS": (
        "a wrong clock holds a queue no longer than a lease"
    ),
    "QUEUE_SLOW_S < QUEUE_PAUSE_S < QUEUE_LEASE_MS / 1000": "the store is used again before a lease has ended",
    "QUEUE_LEASE_MS / 1000 < QUEUE_LEASES_KEPT_S": "a lease is kept until it has ended",
    "COUNTS_WAIT_S < METRICS_CONNECT_S": "a send is answered sooner than its counts",
    "METRICS_RECONNECT_S <= METRICS_CONNECT_S < METRICS_STATEMENT_S": "a connection costs less than a query",
    "METRICS_STATEMENT_S < METRICS_ANSWER_S": "a slow query is ended by the server, which then has a reason",
    "2 * METRICS_CONNECT_S + METRICS_ANSWER_S < timeout_s('metrics_handler')": (
        "a slow query has an answer, and so has a database that hangs: 503"
    ),
    "SEND_POLL_S <= STREAM_POLL_S < STREAM_RETRY_AFTER_S < STREAM_WAIT_S": "a poll asks several times",
    "STREAM_WAIT_S + STREAM_RESERVE_S < timeout_s('metrics_stream')": "the query follows the longest wait",
    "STREAM_WAIT_S < POLL_SLOTS_KEPT_S": "a slot is kept while its poll waits",
    "COSTLY_RETRY_AFTER_S < timeout_s('audiences') < POLL_SLOTS_KEPT_S": (
        "a refused caller asks again while the others run, and a slot is kept as long as they"
    ),
    "OPENSEARCH_REQUEST_S < COUNT_RESERVE_S < timeout_s('audiences')": "a count is answered in time",
    "2 * (DIRECTORY_STATE_REQUEST_S + DIRECTORY_WAIT_S) < timeout_s('audiences')": "a count asks two tasks in time",
    "OPENSEARCH_REQUEST_S < DRY_RUN_RESERVE_S < DRY_RUN_AUDIENCE_RESERVE_S < timeout_s('previews')": (
        "a dry run is answered in time, with an audience, too"
    ),
    "REGISTRY_REQUEST_S + DIRECTORY_WAIT_S + EXPANSION_SHARE_S + 2 * OPENSEARCH_REQUEST_S + PRODUCER_MESSAGE_S "
    "< timeout_s('audience_expander') - FLUSH_RESERVE_S": "a share ends with a page of users, and is handed on",
    "EXPANSION_HANDED_ON_S + max(kept_s('audience'), kept_s('send.api'), REPLAYED_WITHIN_S + 86_400) "
    "< EXPANSIONS_OUTLIVE_S": "the last record of an audience finds its chunks, even if it is replayed",
    "max(kept_s('send.monolith'), kept_s('send.api')) + RETRY_LIFETIME_S + kept_s('dead-letter') <= TOO_OLD_S": (
        "a record that comes again from its topic, by a retry or as a replayed letter is not too old to be counted"
    ),
    "2 * (SENT_MESSAGES_KEPT_S + sum(RECEIPT_RETRY_DELAYS_S)) < TOO_OLD_S": "nor is the outcome of a receipt",
    "TOO_OLD_S < ARCHIVE_KEPT_DAYS * 86_400": "an event that is counted is archived before its day is deleted",
    "REPLAYED_WITHIN_S + 86_400 <= min(COUNTED_IDS_KEPT_S, LEDGER_KEPT_S, DECISIONS_KEPT_S, EXPANSIONS_OUTLIVE_S)": (
        "a replayed record is neither counted nor published again, even if its function is down for a day"
    ),
    "max(kept_s('send.monolith'), kept_s('send.api'), kept_s('delivery'), kept_s('outcome')) <= COUNTED_IDS_KEPT_S": (
        "a record that is produced again because its cause was consumed again is not counted again"
    ),
    "REPLAYED_WITHIN_S < kept_s('dead-letter') <= kept_s('dead-letter-status')": (
        "a letter is there while it can be replayed, and its mark for as long"
    ),
    "RETRY_LIFETIME_S <= min(kept_s('send.monolith'), kept_s('send.api'), kept_s('audience'), kept_s('recheck'))": (
        "a record outlives an outage of its function that its retries would outlive"
    ),
    "RETRY_LIFETIME_S <= min(kept_s('build'), kept_s('delivery'), kept_s('device_status'), kept_s('cdc'))": (
        "so does one of the later functions, and a change of the directory"
    ),
    "max(kept_s('send.monolith'), kept_s('send.api'), kept_s('delivery')) <= kept_s('outcome')": (
        "after an outage of the job, the outcomes of each send that it counts are there"
    ),
    "max(kept_s('send.monolith'), kept_s('send.api'), kept_s('audience'), kept_s('receipt')) <= kept_s('on-failure')": (
        "a record that its mapping gave up on is fed back for as long as its topic has it"
    ),
    "sum(RECEIPT_RETRY_DELAYS_S) < kept_s('receipt')": "a receipt is in its topic while it is retried",
    "kept_s('cdc') <= kept_s('preference_change')": (
        "the monolith can apply a change for as long as a row can arrive that shows whether it has"
    ),
    "(366 + 3) * 86_400 + RETRY_LIFETIME_S < AUDIT_KEPT_S": (
        "the principal of a send is known until its last notification: after send_at, quiet hours and retries"
    ),
    "kept_s('delivery') < LEDGER_KEPT_S < LEASE_KEPT_S": "a replayed delivery record finds its results",
    "REGISTERED_SENDS_KEPT_S + max(kept_s('send.monolith'), kept_s('send.api'), kept_s('audience'), kept_s('recheck')) "
    "< min(DECISIONS_KEPT_S, LEDGER_KEPT_S, COUNTED_IDS_KEPT_S, REGISTERED_SENDS_KEPT_S + EXPANSIONS_OUTLIVE_S)": (
        "a send that is requested again while its id is compared finds its chunks, decisions, results and counted ids"
    ),
    "max(kept_s('outcome'), kept_s('receipt')) + _DAY_S < EMAIL_COUNTS_KEPT_S < 20 * _DAY_S": (
        "a redelivered record counts once, and a count is kept for its day"
    ),
    "max(kept_s('outcome'), kept_s('receipt')) <= SENT_MESSAGES_KEPT_S": "a replayed receipt finds its message",
    "kept_s('outcome') < RECIPIENT_LOG_KEPT_DAYS * 86_400 <= QUARANTINE_KEPT_DAYS * 86_400": (
        "a recipient is found for longer in the log than in the topic"
    ),
    "RECIPIENT_LOG_KEPT_DAYS < MINUTES_KEPT_DAYS < HOURS_KEPT_DAYS < DAYS_KEPT_DAYS < 11 * 366": (
        "coarser counts are kept for longer, and none for ever"
    ),
    "LATE_SCHEMA_S + 86_400 <= kept_s('webhook_outcome')": "a result whose schema is late is still in the topic",
    "kept_s('webhook_outcome') <= WEBHOOK_MINUTES_KEPT_DAYS * 86_400 < WEBHOOK_LOG_KEPT_DAYS * 86_400": (
        "a result is found in the counts and in the log for as long as in the topic"
    ),
    "RECIPIENT_LOG_KEPT_DAYS <= LATENCY_MINUTES_KEPT_DAYS < MINUTES_KEPT_DAYS": (
        "the latencies of a minute are found for as long as its recipients, and not longer than its counts"
    ),
    "WEBHOOK_LOG_KEPT_DAYS < ARCHIVE_KEPT_DAYS": "the log of webhook messages can be compared with the archive",
    "ARCHIVE_KEPT_DAYS + 31 < REDELIVERED_KEPT_DAYS < 2 * 366": (
        "an archived record that was refused is not counted again, even if it was produced before its time"
    ),
    "CONTROLLED_SENDS_KEPT_S <= SENDS_KEPT_DAYS * 86_400 < 2 * 366 * 86_400": (
        "no record of a deleted send follows: not after send_at, quiet hours, retries and a replay"
    ),
    "RECIPIENT_LOG_KEPT_DAYS <= SMALL_SENDS_KEPT_DAYS < SENDS_KEPT_DAYS": (
        "a send is known for as long as its recipients are listed"
    ),
    "SENT_MESSAGES_KEPT_S + RETRY_LIFETIME_S + REPLAYED_WITHIN_S + kept_s('outcome') "
    "< SMALL_SENDS_KEPT_DAYS * 86_400": "no receipt and no replay of a deleted send follows",
    "REGISTERED_SENDS_KEPT_S < SMALL_SENDS_KEPT_DAYS * 86_400": "a send whose item has expired is known by its counts",
    "kept_s('outcome') < SEND_CHANGES_KEPT_DAYS * 86_400 < WEBHOOK_EVENTS_FOUND_S": (
        "an outage of webhook_events misses no change, as one of the functions misses no record"
    ),
    "RECIPIENT_LOG_KEPT_DAYS < ARCHIVE_KEPT_DAYS < 2 * 366": (
        "the log can be compared with the archive, which does not grow for ever"
    ),
    "kept_s('dead-letter') < QUARANTINE_KEPT_DAYS * 86_400 < 2 * 366 * 86_400": (
        "a record's reason is known while it can be replayed, and the table does not grow for ever"
    ),
    "CLOCK_SKEW_S < LEASE_S / 4": "clocks differ little in comparison with a lease",
    "DEAD_LETTER_WINDOW_S <= CHAIN_TIMEOUT_S": "the alarm sees a burst in the invocation after it at the latest",
}
