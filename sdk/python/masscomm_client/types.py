"""The bodies of requests and responses, and the parameters of lists.

Generated: python -m ops.openapi.client_types > sdk/python/masscomm_client/types.py
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict


class AcceptedBody(TypedDict):
    """An accepted send."""

    send_id: str
    status: Literal["accepted", "expanding", "failed"]
    """expanding: the users of the audience are sought, so that `requested` is not known yet. failed: of a repeated
request whose audience could not be expanded."""
    requested: int | None
    """Distinct notifications: a user on a channel. Null while an audience is expanded."""
    duplicates: int
    """Repeated users; they are not counted in `requested`."""
    links: Links
    warnings: NotRequired[list[FieldErrorBody]]
    """Content that is not used, and templates that are missing. Absent if there is none."""


class AcceptedEvent(TypedDict):
    event_id: str
    club_id: int
    status: Literal["accepted", "repeated"]
    """`repeated`: the same event was accepted in the last 24 hours, and is not produced again."""


class AcceptedEvents(TypedDict):
    """The events of a request, in its order. Kafka has each of them."""

    events: list[AcceptedEvent]


class AcceptedWebhookBody(TypedDict):
    """A webhook that became an event."""

    at: str
    """The time of its receipt."""
    event_id: str
    type: str
    club_id: int


class AcknowledgeWebhooksRequest(TypedDict):
    """Which dead letters the caller has processed."""

    up_to: str
    """The id of the last one, or a time."""


class AcknowledgedWebhooksBody(TypedDict):
    """Acknowledged dead letters, which are deleted."""

    acknowledged: int
    truncated: bool
    """Whether there are more up to this one: repeat the request."""


class AlarmRow(TypedDict):
    """An alarm."""

    name: str
    state: Literal["alarm", "ok", "insufficient_data"]
    since: str
    """The time at which this state began."""
    description: str
    runbook: str | None
    """The name of the file in docs/runbooks, without `.md`."""


class AlarmsBody(TypedDict):
    """The alarms of the installation."""

    evaluated: bool
    """Whether alarms are evaluated. false: the state of this installation's alarms is unknown, as in the local
stack."""
    rows: list[AlarmRow]
    """Those that ring first, then those with too few values; in each state the latest change first."""
    generated_at: str


class AttemptBody(TypedDict):
    """One attempt of a delivery."""

    at: str
    duration_ms: int
    status: int | None
    """The status of the response; null if there was none."""
    error: str | None
    """Why there was no response, or no attempt."""
    body: str
    """Empty: the response's body is not kept."""


type AttemptResult = Literal["delivered", "retried", "given_up"]


class AuditBody(TypedDict):
    """Entries of the audit log, the latest first."""

    rows: list[AuditRow]
    truncated: bool
    """Whether there are more entries."""
    next_cursor: str | None
    generated_at: str


class AuditRow(TypedDict):
    """An action of a principal."""

    at: str
    club_id: int | None
    """null: every club."""
    principal: str
    """The id of an API key, or `operator:` and a name."""
    action: str
    subject: str
    """The id of the send, key or user, the position of the dead letter, or the digest of the address."""
    result: str
    """ok, or failed: the action may have had a part of its effect."""
    detail: str


class AuthenticationBody(TypedDict):
    """The authentication of an endpoint, without its secrets."""

    type: AuthenticationType
    since: str
    """The time at which it was set."""
    previous_until: str | None
    """The time until which the previous one is used for requests that are refused."""
    username: NotRequired[str]
    headers: NotRequired[list[str]]
    """The names of the headers."""
    token_url: NotRequired[str]
    client_id: NotRequired[str]
    scope: NotRequired[str]
    audience: NotRequired[str]
    client_authentication: NotRequired[Literal["basic", "body"]]
    certificate: NotRequired[str]
    """The subject of the client certificate."""
    certificate_until: NotRequired[str]
    """The end of its validity."""


class AuthenticationFields(TypedDict):
    """How masscomm authenticates its requests, in addition to their signature."""

    type: AuthenticationType
    token: NotRequired[str]
    """bearer: the token."""
    username: NotRequired[str]
    password: NotRequired[str]
    """basic: user name and password."""
    headers: NotRequired[dict[str, str]]
    """headers: up to 10 headers, such as x-api-key."""
    token_url: NotRequired[str]
    """oauth2: the address from which access tokens are requested with client credentials."""
    client_id: NotRequired[str]
    client_secret: NotRequired[str]
    scope: NotRequired[str]
    audience: NotRequired[str]
    client_authentication: NotRequired[Literal["basic", "body"]]
    """oauth2: whether id and secret are in the header Authorization (the default) or in the body."""
    certificate: NotRequired[str]
    """mtls: the client certificate in PEM, followed by those of its authorities."""
    private_key: NotRequired[str]
    """mtls: its private key in PEM, without a password."""


type AuthenticationType = Literal["bearer", "basic", "headers", "oauth2", "mtls"]


class BatchBody(TypedDict):
    """The results of a batch."""

    accepted: int
    refused: int
    results: list[BatchResult]


class BatchRequest(TypedDict):
    """The body of a request to POST /v1/sends/batch."""

    sends: list[SmallSend]


class BatchResult(TypedDict):
    """The result of one send of the batch, in the order of the request."""

    status: int
    """202, or the status of the problem."""
    send: AcceptedBody | None
    problem: ProblemBody | None


type BodyFormat = Literal["masscomm", "cloudevents"]


class CancelBody(TypedDict):
    """The recorded cancellation of a send."""

    send_id: str
    status: Literal["cancelling"]
    requested_at: str
    published_before: int | None
    """Notifications that were counted as published at the request; null if the counts were unknown."""
    links: Links


class CancellationOfSend(TypedDict):
    """The cancellation of a send."""

    requested_at: str
    published_before: int | None
    """Notifications that were published before the request; null if the counts were unknown then."""
    published_since: int | None
    """Notifications that were published between the request and its effect; null if this is unknown."""
    exact: bool
    """Whether the two numbers follow from the times of the outcomes. Otherwise they follow from the counts at the
request, which are seconds behind: `published_since` is an upper bound."""


class CapFields(TypedDict):
    """How many sends of a category a user gets in a window."""

    limit: int
    """From 1 to 100."""
    window: str
    """`day`, the user's local day, or the length of a rolling window such as `30m`, `24h` or `7d`; at most 30 days."""
    by_channel: NotRequired[bool]
    """Whether each channel counts by itself; otherwise a send counts once for all its channels."""
    group: NotRequired[str | None]
    """The group whose categories count together; null: the category counts by itself."""


class CategoriesBody(TypedDict):
    """The categories of sends."""

    rows: list[CategoryRow]


class CategoryBody(TypedDict):
    """A category of sends with all its versions."""

    type: str
    """The value of the field `type` of a send."""
    versions: list[CategoryValues]
    """The versions, the latest first."""
    etag: str
    """The header `ETag`, for `If-Match` of a change."""


class CategoryFields(TypedDict):
    """The body of a request to PUT /v1/categories/{category}. It replaces the category."""

    channels: list[str]
    """The channels of a send that names none."""
    mandatory: NotRequired[bool]
    """Whether an opt-out of the user does not apply."""
    critical: NotRequired[bool]
    """Whether its sends use the critical lane, to which no cap, digest, pace or quiet hours apply."""
    opt_in: NotRequired[list[str]]
    """The channels on which only users with a rule for the category get it."""
    caps: NotRequired[list[CapFields] | None]
    """The frequency caps, at most four; null: those of the default category apply."""
    digest: NotRequired[DigestFields | None]
    """How its notifications are collected; null: each goes out by itself."""
    shorten: NotRequired[bool]
    """Whether the body of a push that is larger than a platform accepts is shortened. Otherwise it fails."""
    titles: NotRequired[dict[str, str]]
    """The name that recipients see on the page of an unsubscribe link, by language such as `de`."""
    descriptions: NotRequired[dict[str, str]]
    """A sentence for recipients about its content, by language."""
    clubs: NotRequired[list[ClubFields]]
    """The clubs for which the category differs."""
    retired: NotRequired[bool]
    """Whether new sends over REST are refused. Those by Kafka keep the rules of the category."""


class CategoryOfClub(TypedDict):
    """A category as it is for the sends of one club."""

    club_id: int
    channels: list[str]
    opt_in: list[str]
    caps: list[CapFields] | None
    digest: DigestFields | None


class CategoryRow(TypedDict):
    """A category of sends, as it was put last."""

    valid_from: str | None
    channels: list[str]
    mandatory: bool
    critical: bool
    opt_in: list[str]
    caps: list[CapFields] | None
    digest: DigestFields | None
    shorten: bool
    titles: dict[str, str]
    descriptions: dict[str, str]
    retired: bool
    clubs: list[CategoryOfClub]
    type: str
    """The value of the field `type` of a send; `default` stands for each type without a row."""


class CategoryTexts(TypedDict):
    """What recipients see of a category, by language such as `de`."""

    titles: dict[str, str]
    descriptions: dict[str, str]


class CategoryValues(TypedDict):
    """A category as it is from a time on."""

    valid_from: str | None
    """The time from which it is valid; null: it is the one of the installation's file."""
    channels: list[str]
    """The channels of a send that names none."""
    mandatory: bool
    """Whether an opt-out of the user does not apply."""
    critical: bool
    """Whether its sends use the critical lane."""
    opt_in: list[str]
    """The channels on which only users with a rule for the category get it."""
    caps: list[CapFields] | None
    """The frequency caps; null: those of the default category apply."""
    digest: DigestFields | None
    """How its notifications are collected; null: each goes out by itself."""
    shorten: bool
    """Whether the body of a push that is larger than a platform accepts is shortened."""
    titles: dict[str, str]
    """The name that recipients see, by language."""
    descriptions: dict[str, str]
    """A sentence for recipients about its content, by language."""
    retired: bool
    """Whether new sends over REST are refused."""
    clubs: list[CategoryOfClub]
    """The caller's clubs for which the category differs."""


class ChangeWebhookRequest(TypedDict):
    """The fields that change."""

    url: NotRequired[str]
    event_types: NotRequired[list[EventType]]
    description: NotRequired[str]
    max_count: NotRequired[int]
    max_bytes: NotRequired[int]
    max_wait_s: NotRequired[int]
    ordered: NotRequired[bool]
    max_concurrency: NotRequired[int]
    rate_per_s: NotRequired[int | None]
    """Null: no limit."""
    format: NotRequired[BodyFormat]
    role_arn: NotRequired[str | None]
    authentication: NotRequired[AuthenticationFields | None]
    """The previous one is used for 24 hours for requests that are refused. Null: none, at once."""
    contact_user_id: NotRequired[int | None]
    """Null: no e-mail is sent."""
    enabled: NotRequired[bool]


class ChannelAlone(TypedDict):
    """A channel without a condition."""

    channel: Literal["push", "email", "sms"]


ChannelCondition = TypedDict(
    "ChannelCondition",
    {
        "channel": Literal["push", "email", "sms"],
        "if": Literal["not_sent", "not_delivered"],
        "after": str,
    },
)


class Chunks(TypedDict):
    """Numbers of the send's chunks."""

    expected: int | None
    counted: int | None


class ClubFields(TypedDict):
    """How a category differs for the sends of one club."""

    club_id: int
    channels: NotRequired[list[str]]
    opt_in: NotRequired[list[str]]
    caps: NotRequired[list[CapFields] | None]
    digest: NotRequired[DigestFields | None]
    """Null: each notification goes out by itself; missing: as the category."""


class CodedBody(TypedDict):
    """The code of a text, so that a program can translate it."""

    code: NotRequired[str]
    """Names the text. `x-texts` of `ProblemBody` has the codes; later versions may have further ones."""
    parameters: NotRequired[dict[str, str | int]]
    """The values in the text."""
    texts: NotRequired[dict[str, CodedBody]]
    """The codes of those values in `parameters` that are texts themselves, by the name of the value."""


ConditionOfChannel = TypedDict(
    "ConditionOfChannel",
    {
        "channel": str,
        "waits_for": str,
        "if": str,
        "after": str,
    },
)


class Conservation(TypedDict):
    """Whether all recipients are accounted for."""

    terminal: int
    """Notifications with a final status."""
    in_flight: int
    ok: bool
    """False while the metrics job has counted the end of a notification before its beginning. `requested` then includes
it already."""


class ContentOfSend(TypedDict):
    """The content of a send, in the form of a request to POST /v1/previews."""

    type: str
    club_id: int
    channels: list[Literal["push", "email", "sms"]]
    template: str | None
    locale: str | None
    data: dict[str, str]
    """The variables that all recipients share."""
    push: dict[str, Any] | None
    """The options of its pushes. Null: it has none, or they are hidden with the values."""


class ControlOfSend(TypedDict):
    """The control of a send."""

    paused_at: str | None
    """The beginning of the present pause."""
    resumed_at: str | None
    """The end of the last pause."""
    send_at: str | None
    """The time to which the send was moved."""


class CountBody(TypedDict):
    """The number of users in an audience."""

    users: int
    channels: dict[str, int]
    """By channel: users with an address, or with an active device. Opt-outs and suppressions are not considered."""
    examined: int
    """The users of the club that were compared with the audience; of one with `follows`, the followers."""
    complete: bool
    """Whether all users of the club were examined in the time of a request."""


class CountRequest(TypedDict):
    """The body of a request to POST /v1/audiences/count."""

    club_id: int
    audience: dict[str, Any]
    """The conditions of docs/audiences.md, or a saved audience."""
    channels: NotRequired[list[str]]
    """The channels to count; by default all."""


class CountedRow(TypedDict):
    """A bucket with its count. Only the dimensions of the query are present."""

    bucket: NotRequired[str]
    club_id: NotRequired[int]
    type: NotRequired[str]
    channel: NotRequired[str]
    measure: NotRequired[str]
    reason: NotRequired[str]
    count_total: NotRequired[int]


class CreateKeyRequest(TypedDict):
    """The body of a request to create an API key."""

    name: str
    """For people: the system that uses the key. 1 to 100 characters."""
    clubs: list[int] | None
    """The clubs of the key; null: every club."""
    scopes: NotRequired[list[Scope]]
    """Without any, read."""
    mode: NotRequired[Literal["live", "test"]]
    expires_at: NotRequired[str | None]
    """The end of the key, in RFC 3339 with an offset."""
    requests_a_minute: NotRequired[int | None]
    recipients_a_day: NotRequired[int | None]


class CreateWebhookRequest(TypedDict):
    """A new endpoint."""

    club_id: int
    url: str
    """An address with https in the Internet, or the ARN of an SQS queue or of an EventBridge event bus."""
    event_types: NotRequired[list[EventType]]
    """Empty or missing: every type."""
    description: NotRequired[str]
    max_count: NotRequired[int]
    """The most messages with events of a request: 1 (the default) to 1,000."""
    max_bytes: NotRequired[int]
    """The most bytes of a request with several messages: 1,000 to 1,000,000, by default 256,000."""
    max_wait_s: NotRequired[int]
    """The most seconds that a message waits for others of its request: 1 (the default), or 60 to 3,600."""
    ordered: NotRequired[bool]
    """Whether a message waits until those before it with the same `key` are accepted or given up; by default not."""
    max_concurrency: NotRequired[int]
    """The most concurrent requests with events: 1 to 32, by default 8."""
    rate_per_s: NotRequired[int | None]
    """The most messages with events a second: 1 to 10,000; null or missing: no limit."""
    format: NotRequired[BodyFormat]
    """The form of events of systems: `masscomm` (the default), or CloudEvents 1.0 in the structured form."""
    role_arn: NotRequired[str | None]
    """For an ARN: the role in its account that masscomm assumes; its name begins with `masscomm-`."""
    authentication: NotRequired[AuthenticationFields | None]
    """Null or missing: requests have their signature only."""
    contact_user_id: NotRequired[int | None]
    """The user of the tenant who gets an e-mail when masscomm disables it; null or missing: no e-mail is sent."""


class DeadLetterAction(TypedDict):
    """An earlier operation on a dead letter."""

    status: str
    at: str
    by: str
    detail: str
    """The topic of a replay, or the reason of a discard."""


class DeadLetterBody(TypedDict):
    """A dead letter with its payload."""

    letter: DeadLetterRow
    history: list[DeadLetterAction]
    outlined: bool
    """Whether the letter is shown without its values, to a caller without the scope users:read."""
    key: str | None
    """null: the record has none, or is outlined."""
    headers: list[DeadLetterHeader]
    payload: str | None
    """The decoded record as JSON text, shortened; null if it cannot be decoded. Outlined, it has types such as
`integer` in place of values, and `*` in place of the keys of a map."""
    payload_error: str | None
    """Why the record cannot be decoded; null: it can, or is outlined."""
    payload_base64: str | None
    """The first bytes of a record that cannot be decoded; null if it is outlined."""
    payload_truncated: bool


class DeadLetterHeader(TypedDict):
    name: str
    value: str
    """Empty if the letter is outlined."""


class DeadLetterRow(TypedDict):
    """A record that could not be processed."""

    position: str
    """The position on the dead-letter topic, partition@offset."""
    at: str
    """When the record was dead-lettered."""
    club_id: int | None
    """null: the record has no readable club."""
    topic: str
    """The source topic; partition and offset are the record's position in it."""
    partition: str
    offset: str
    reason: str
    error: str
    """Empty without the scope users:read: an error may quote values of the record."""
    function: str
    replayed_from: str
    """The position of the dead letter of which the record is a replay, or empty."""
    size: int
    """Bytes of the record."""
    status: str
    """open, replayed or discarded"""


class DeadLettersBody(TypedDict):
    """Dead letters, the latest first."""

    rows: list[DeadLetterRow]
    truncated: bool
    """Whether there are earlier letters. A page may have fewer rows than its limit nevertheless."""
    next_cursor: str | None


class DecidedBy(TypedDict):
    """The rule and the user settings that determined a status, as far as they are known."""

    layer: str | None
    """The source of the decision, such as user, default or provider."""
    rule: str | None
    """The setting that determined it, or the provider's code."""
    category: str | None
    """The category that a rule of the user settings is about; null: every category."""
    channel: str | None
    """The channel that a rule of the user settings is about; null: every channel."""
    settings_version: int | None
    """The version of these user settings in the directory: a position in the monolith's log."""
    changed_at: str | None
    """The time of the newest change in these user settings."""


class DeletedAudienceBody(TypedDict):
    """A deleted audience."""

    name: str
    status: Literal["deleted"]


class DeletedEventTypeBody(TypedDict):
    """A deleted type."""

    name: str
    status: Literal["deleted"]


class DeletedScheduleBody(TypedDict):
    """A deleted schedule."""

    name: str
    status: Literal["deleted"]


class DeletedSourceBody(TypedDict):
    """A deleted source."""

    id: str
    status: Literal["deleted"]


class DeletedSubscriptionBody(TypedDict):
    """A deleted subscription."""

    id: str
    status: Literal["deleted"]


class DeletedWebhookBody(TypedDict):
    """A deleted endpoint."""

    id: str
    status: Literal["deleted"]


class DeliveriesBody(TypedDict):
    """Deliveries, the latest first."""

    rows: list[DeliveryBody]
    truncated: bool
    """Whether the list continues. A page may have fewer rows than its limit: follow next_cursor."""
    next_cursor: str | None


class DeliveryBody(TypedDict):
    """The delivery of one event to one endpoint."""

    id: str
    event_id: str
    """The value of the header webhook-id, in each request with this message only."""
    event_type: str
    at: str
    """The time of the event, or of its first attempt."""
    status: DeliveryStatus
    attempts: int
    next_attempt_at: str | None
    """Null: unknown."""
    last_attempts: list[AttemptBody]
    """The latest first."""


type DeliveryStatus = Literal["pending", "succeeded", "failed"]


type DeviceStatus = Literal["active", "unregistered", "disabled"]


class DigestFields(TypedDict):
    """How the notifications of a category to one user on one channel are collected in one message."""

    template: str
    """The template of the message. It sees `digest.count`, `digest.first` and `digest.list`."""
    window: NotRequired[str | None]
    """How long they are collected after the first one, such as `30m`, `24h` or `7d`; at most 7 days."""
    at: NotRequired[str | None]
    """Instead of a window, the time on the user's clock at which the message goes out, such as `08:00`."""
    key: NotRequired[str | None]
    """The variable whose value separates digests, such as `post_id`."""
    list: NotRequired[int]
    """The number of notifications whose variables the template sees, from 1 to 100; by default 10."""


class DigestRequest(TypedDict):
    """How the notifications of a send are collected, each in the digest of its user."""

    template: str
    """The template of the message of the digest."""
    window: NotRequired[str | None]
    """How long they are collected, at most 7 days."""
    at: NotRequired[str | None]
    """Instead of a window, a time on the user's clock."""
    key: NotRequired[str | None]
    """The variable whose value separates digests."""
    list: NotRequired[int]
    """The number of notifications that the template sees."""


type Dimension = Literal["club_id", "type", "channel", "measure", "reason"]


class DirectoryRow(TypedDict):
    """The age of a generation of the directory."""

    generation: str
    heartbeat_at: str | None
    """The time of the newest heartbeat of the monolith's database that cdc_consumer has processed."""
    staleness_s: float | None
    """How old the directory is. null: no heartbeat is known."""


class DisabledCount(TypedDict):
    """A number of disabled devices."""

    club_id: int | None
    reason: str
    devices: int


class DisabledCountsBody(TypedDict):
    """The number of disabled devices by club and reason, the largest first."""

    rows: list[DisabledCount]
    examined: int
    complete: bool
    """Whether all disabled devices were examined. false: only those that were disabled last."""


class DisabledDeviceRow(TypedDict):
    """A device to which nothing is pushed. Its token and its endpoint are not shown."""

    device_id: int
    user_id: int | None
    """null: the monolith's row is gone."""
    club_id: int | None
    platform: str | None
    reason: str
    since: str
    can_be_enabled: bool
    """Whether the device can be enabled by this API. Any other device is enabled by a change of the monolith's
row."""


class DisabledDevicesBody(TypedDict):
    """Disabled devices, those disabled last first."""

    rows: list[DisabledDeviceRow]
    truncated: bool
    """Whether the list continues. A page may have fewer rows than its limit: follow next_cursor."""
    next_cursor: str | None


class DiscardRequest(TypedDict):
    """The body of a request to discard a dead letter."""

    reason: str
    """Stored with the letter and in the audit log: 1 to 500 characters."""


class DiscardedBody(TypedDict):
    """A discarded dead letter."""

    position: str
    status: Literal["discarded"]
    reason: str


class Draft(TypedDict):
    """A template that is not saved yet. It is rendered in place of the saved ones."""

    title: str
    body: str
    html: NotRequired[str | None]
    url: NotRequired[str | None]


class DryRunBody(TypedDict):
    """What would become of a send. Nothing was sent."""

    dry_run: Literal[True]
    requested: int
    """Distinct notifications: a user on a channel."""
    reached: int
    """Distinct users who would get at least one message, now or later."""
    duplicates: int
    """Repeated users; they are not counted in `requested`."""
    estimated: bool
    """Whether the counts are estimated from a sample of the recipients."""
    minutes: int | None
    """How many minutes the send takes at its pace; null: it has none."""
    counted_at: str
    """The time of the counts. Users, devices and preferences may be others when the send is due."""
    channels: list[DryRunChannel]
    sms: DryRunSms | None
    """null: no SMS goes out or is refused for its country."""
    samples: list[DryRunSample]
    """One message for each channel and locale, at most five a channel; empty without the scope users:read."""
    warnings: list[FieldErrorBody]


class DryRunChannel(TypedDict):
    """What becomes of the notifications on a channel. Each is counted in one of the numbers."""

    channel: str
    requested: int
    deliverable: int
    """Notifications that a provider would get now."""
    held: int
    """Notifications that a provider would get after the user's quiet hours."""
    scheduled: int
    """Notifications that a provider would get at the send's time."""
    collected: int
    """Notifications that would wait in digests of their users."""
    if_needed: int
    """Notifications of a fallback that a provider would get if those on the channel before it are not sent."""
    suppressed: int
    failed: int
    expired: int
    reasons: list[DryRunReason]
    """By status and reason, without those that are deliverable as usual."""


class DryRunCountry(TypedDict):
    """The SMS to one country."""

    country: str
    """ISO 3166, two letters; empty: a number of no country."""
    messages: int
    segments: int
    usd: float


class DryRunReason(TypedDict):
    """Notifications with the same end."""

    status: Status
    reason: Reason | None
    count_total: int
    first_at: str | None
    """The time at which the first of these notifications is released; null: they do not wait."""
    last_at: str | None


class DryRunRefusedCountry(TypedDict):
    """The SMS that the tenant does not send to a country."""

    country: str
    messages: int


class DryRunSample(TypedDict):
    """The message of a recipient."""

    channel: str
    locale: str
    user_id: int
    fields: dict[str, str]
    """The texts: title, body and url of a push; subject, text and html of an e-mail."""


class DryRunSms(TypedDict):
    """The SMS that go out, now or later, with the segments and the prices by which they are billed."""

    segments: int
    usd: float
    prices_as_of: str
    """The day of the prices."""
    countries: list[DryRunCountry]
    refused: list[DryRunRefusedCountry]


class EffectivePreference(TypedDict):
    """Whether notifications of a category reach the user on a channel."""

    category: str
    channel: str
    wanted: bool
    layer: str
    """The source of the decision, as in outcomes: tenant_user (the user's settings for the tenant), user (their
settings), tenant and global (rules of the tenant, and of every tenant) or default (the category)."""
    rule: str | None
    """The rule that applies, as in outcomes; null: there is none."""
    row: RowBody | None
    """The row with the rule; null: the category decides."""


class EnabledDeviceBody(TypedDict):
    """A device that the device registrar will try again."""

    device_id: int
    status: Literal["requested"]


class EventFields(TypedDict):
    """An event that occurred."""

    event_id: str
    """The id of the event in its club. A repeated event of the last 24 hours is not produced again."""
    type: str
    """The event type, such as match.finished."""
    club_id: int
    data: dict[str, Any]
    """At most 64 kB."""
    unit: NotRequired[str | None]
    """The path of the unit, at most 5 levels, such as 100/7."""
    key: NotRequired[str | None]
    """What the event is about, such as the id of an order."""
    occurred_at: NotRequired[str]
    """The time of the event; by default now."""


type EventType = Literal[
    "send.accepted",
    "send.expanded",
    "send.paused",
    "send.resumed",
    "send.completed",
    "send.cancelled",
    "send.failed",
    "webhook.test",
    "webhook.disabled",
]


class EventTypeBody(TypedDict):
    """A type of events."""

    name: str
    description: str
    example: dict[str, Any]
    schema: dict[str, Any] | None
    user_path: str | None


class EventTypeFields(TypedDict):
    """The body of a request to PUT /v1/event-types/{name}."""

    description: str
    example: dict[str, Any]
    """The data of an event of this type."""
    schema: NotRequired[dict[str, Any] | None]
    """A JSON Schema for data, without references to other documents; null: data is any JSON object."""
    user_path: NotRequired[str | None]
    """The path in data of the id of the user whom the event concerns, such as player.id."""


class EventTypesBody(TypedDict):
    """All types of events, in the order of their names."""

    rows: list[EventTypeBody]


class EventsRequest(TypedDict):
    """The body of a request to POST /v1/events."""

    events: list[EventFields]


class ExpansionOfSend(TypedDict):
    """The expansion of an audience."""

    status: Literal["expanding", "ended", "failed"]
    users: int | None
    """The users of the audience; null until they are all found."""
    requested: int | None
    """Their notifications."""
    error: str | None


class FieldErrorBody(TypedDict):
    code: NotRequired[str]
    """Names the text. `x-texts` of `ProblemBody` has the codes; later versions may have further ones."""
    parameters: NotRequired[dict[str, str | int]]
    """The values in the text."""
    texts: NotRequired[dict[str, CodedBody]]
    """The codes of those values in `parameters` that are texts themselves, by the name of the value."""
    field: str
    """The name as in the request, such as `to_users[3]`."""
    message: str


type Grain = Literal["minute", "hour", "day"]


class HealthBody(TypedDict):
    """The health of the installation."""

    lag: list[LagRow]
    """The largest lag first."""
    lag_total: int
    directory: list[DirectoryRow]
    open_dead_letters: int
    """Dead letters that were neither replayed nor discarded."""
    categories_without_unsubscribe: list[str]
    """The categories whose e-mails offer no way to unsubscribe, because the installation has neither the address of the
route nor a mailbox."""
    generated_at: str


class KeyRow(TypedDict):
    """An API key without its secret text."""

    id: str
    name: str
    clubs: list[int] | None
    """null: every club."""
    scopes: list[str]
    mode: str
    """live, or test: the key sends to simulator recipients only."""
    created_at: str
    expires_at: str | None
    """null: without an end."""
    last_used_at: str | None
    """At most a minute late."""
    requests_a_minute: int | None
    recipients_a_day: int | None


class KeysBody(TypedDict):
    """API keys, the latest first."""

    rows: list[KeyRow]
    truncated: bool
    """Whether there are more keys."""
    next_cursor: str | None


class LagRow(TypedDict):
    """The records of a topic that a function has not processed yet."""

    function: str
    topic: str
    records: int


class LatencyBody(TypedDict):
    """Latencies by bucket and dimensions."""

    granularity: Grain
    start: str
    end: str
    dimensions: list[Dimension]
    rows: list[LatencyBodyRow]
    whole: list[LatencyWholeRow]
    """The latencies of all buckets together."""
    error: float
    """The largest relative error of a latency."""
    watermark: str | None
    """The latencies include all records that were in the topics at this time."""
    grace_ms: int
    """The time between the end of a bucket and its completeness."""
    complete: bool
    """Whether the watermark is later than the end of the last bucket by the grace."""
    kept_since: str | None
    """Latencies of earlier buckets are not stored; null: all are."""
    generated_at: str


class LatencyBodyRow(TypedDict):
    """The latencies of a bucket in milliseconds. Only the dimensions of the query are present."""

    type: NotRequired[str]
    channel: NotRequired[str]
    measure: NotRequired[str]
    count_total: NotRequired[int]
    p50_ms: NotRequired[float]
    p95_ms: NotRequired[float]
    p99_ms: NotRequired[float]
    bucket: NotRequired[str]


class LatencyWholeRow(TypedDict):
    """Latencies in milliseconds. Only the dimensions of the query are present."""

    type: NotRequired[str]
    channel: NotRequired[str]
    measure: NotRequired[str]
    count_total: NotRequired[int]
    """The number of notifications whose latency is known."""
    p50_ms: NotRequired[float]
    """Half of the notifications took at most this long."""
    p95_ms: NotRequired[float]
    p99_ms: NotRequired[float]


class Links(TypedDict):
    """The paths of a resource."""

    self: str


class ListedSend(TypedDict):
    """A send in the list, with numbers of notifications on all channels."""

    send_id: str
    club_id: int
    type: str
    origin: Origin
    """What made the send: a request, or a digest, whose message it is."""
    reference: str | None
    """The requester's own id of the send, while the send is registered."""
    requested_at: str
    status: SendState
    requested: int | None
    """Null while the users of an audience are sought, and if only counts know it and do not answer."""
    published: int | None
    """Notifications that a provider has accepted."""
    digested: int | None
    """Notifications that are part of digests."""
    suppressed: int | None
    failed: int | None
    cancelled: int | None
    in_flight: int | None
    """Requested notifications without a final status."""
    links: Links


class ListedUser(TypedDict):
    """A user, as the directory has it. Addresses are not shown."""

    user_id: int
    club_id: int
    first_name: str
    last_name: str
    locale: str
    time_zone: str
    links: Links


class MessageBody(TypedDict):
    """The message of a send."""

    send_id: str
    content: ContentOfSend | None
    """Null: the message is not kept."""
    hidden: list[str]
    """The names of the data whose values are left out, because the caller lacks the scope users:read and the send has
fewer than 20 users."""
    reason: NotKept | None
    """Why the message is not kept. category: mandatory or not listed, small: a small send by Kafka at once, expired: 30
days have passed, unknown: erased with a recipient, or the reason is no longer known."""


class MetricsBody(TypedDict):
    """Counts by bucket and dimensions."""

    granularity: Grain
    start: str
    end: str
    time_zone: str
    dimensions: list[Dimension]
    rows: list[CountedRow]
    truncated: bool
    """Whether there are more rows."""
    next_cursor: str | None
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    grace_ms: int
    """The time between the end of a bucket and its completeness."""
    complete: bool
    """Whether the watermark is later than the end of the last bucket by the grace."""
    revised_at: str | None
    revised: list[RevisedBucket]
    kept_since: str | None
    """Counts of earlier buckets are deleted; null: none is. Days of a time zone are sums of such counts."""
    generated_at: str


class NewKeyBody(TypedDict):
    """A new API key. Its text is in no later response."""

    key: str | None
    """The secret text of the key, shown only now; null in the response to a repeated request with the same
Idempotency-Key. If the first response is lost, rotate the key."""
    sha256: str
    """The digest of the text, which is the value of the key in API Gateway's usage plan."""
    properties: KeyRow


class NewWebhookBody(TypedDict):
    """An endpoint with its secret."""

    secret: str
    """The secret with which its webhooks are signed. No other response contains it."""
    endpoint: WebhookBody


class NextTime(TypedDict):
    """A time of a rule."""

    local_time: str
    """On the clocks of the schedule's time zone."""
    at: str


type NotKept = Literal["category", "critical", "small", "too_large", "expired", "unknown"]


class NotificationBody(TypedDict):
    """A notification with its statuses."""

    notification: str
    notification_id: str
    """The id in the message."""
    send_id: str
    user_id: int
    channel: str
    club_id: int
    type: str
    requested_at: str | None
    status: str
    reason: str | None
    decision: str
    """The status and its reason in words."""
    decided_by: DecidedBy | None
    """The data of the decision, as in `timeline`."""
    chain: list[NotificationOfChain]
    """The user's notifications of which each waits for the one before it, this one included; [] if it is none."""
    timeline: list[StepBody]
    """The statuses in the order of their times. A repeated status of a redelivered record occurs once."""
    since: str | None
    """The beginning of the stored log; null: no status is missing."""
    watermark: str | None
    generated_at: str | None


class NotificationFields(TypedDict):
    """What users receive of each event. It has one of users_path, audience and unit_attribute."""

    type: str
    """The category."""
    channels: NotRequired[list[str]]
    """Missing: those of the category."""
    template: NotRequired[str]
    """The type of the template, if it differs from the category."""
    locale: NotRequired[str]
    data: NotRequired[dict[str, str]]
    """The name of a variable, and the path of its value in the event's data."""
    push: NotRequired[dict[str, Any]]
    """The options of the pushes, as in a send."""
    users_path: NotRequired[str]
    """The path in data of a user id, or of a list of user ids."""
    audience: NotRequired[dict[str, Any]]
    """Users by conditions."""
    unit_attribute: NotRequired[str]
    """The attribute of users that has the event's unit."""


NotificationOfChain = TypedDict(
    "NotificationOfChain",
    {
        "channel": str,
        "if": str | None,
        "after": str | None,
        "links": Links,
    },
)


class OccurrenceBody(TypedDict):
    """An occurrence of a schedule."""

    local_time: str
    at: str
    state: Literal["started", "sent", "skipped"]
    """started: its send is being requested."""
    reason: str | None
    """Why it was skipped: late, recipients_a_day (the owner's limit), or why the schedule was paused."""
    send_id: str | None
    """The id of its send."""


type Origin = Literal["request", "digest"]


class OverviewBody(TypedDict):
    """Sends in progress, the counts of today, and open problems."""

    sends: list[ListedSend]
    """Those of the latest 100 sends that have not ended, then the latest others; at most 10."""
    counts_known: bool
    """False: the metrics database does not answer. Only sends are listed that are large, scheduled, to an audience or
controlled, and their counts are null."""
    today: TodayBody | None
    dead_letters: int | None
    """Open dead letters: for a caller of every club all of them, otherwise those of its clubs among the latest 100.
null without the scope `operate`."""
    alarms: list[AlarmRow] | None
    """The alarms that ring; null: nothing evaluates alarms, or the caller does not have the scope `operate`."""
    webhooks: list[WebhookBody] | None
    """The endpoints that masscomm has disabled, at most 10; null without the scope `webhooks`."""
    health: OverviewHealth | None
    """null without the scope `operate`."""
    unavailable: list[str]
    """The parts whose server does not answer: sends, today, dead_letters, alarms, webhooks or health."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    generated_at: str


class OverviewHealth(TypedDict):
    """How far the installation is behind."""

    lag_total: int
    """Records that wait for a function."""
    staleness_s: float | None
    """The age of the directory's oldest generation; null: no heartbeat is known."""


class PaceOfSend(TypedDict):
    """The pace of a send."""

    per_minute: int | None
    """The most recipients that are released in a minute."""
    spread_over: str | None
    """How long its recipients are spread, such as 2h."""
    expected_end: str | None
    """The end of the last minute for which recipients are planned; null: none are yet."""


class PauseBody(TypedDict):
    """The pause of a send."""

    send_id: str
    status: Literal["paused"]
    paused_at: str
    published_before: int | None
    """Notifications that are counted as published now; null if the counts are unknown."""
    links: Links


class PausedBody(TypedDict):
    reason: Literal["requested", "key_revoked", "not_permitted", "category_retired", "audience_unknown"]
    """requested: by a request. Otherwise the owner could not request the send: its key has ended, it lacks the tenant
or a scope, or the category or the saved audience does not exist any more."""
    since: str


class PreferencesBody(TypedDict):
    """A user's preferences."""

    user_id: int
    club_id: int
    channels: dict[str, bool]
    """The user's rules for channels."""
    categories: dict[str, bool | dict[str, bool]]
    """The user's rules for categories."""
    quiet_hours: QuietHoursBody | None
    """The user's quiet hours; null: there are none."""
    quiet_hours_row: RowBody | None
    """The row that sets or removes quiet hours; null: no row does."""
    effective: list[EffectivePreference]
    """The result for each category on each channel."""
    texts: dict[str, CategoryTexts]
    """Category → its titles and descriptions. A category without any has no entry."""
    changed_at: str | None
    """The time of the newest change in the user's settings; null: it is unknown, or there are no settings."""
    pending: bool
    """Whether the monolith has not applied a change yet. The change applies to notifications already."""
    links: Links


class PreferencesRequest(TypedDict):
    """The rules to set. Rules that are not named stay as they are."""

    channels: NotRequired[dict[str, bool]]
    """Channel → whether the user wants it, for categories without a rule of their own."""
    categories: NotRequired[dict[str, bool | dict[str, bool]]]
    """Category → whether the user wants it, on every channel or by channel."""
    quiet_hours: NotRequired[QuietHoursBody | None]
    """The quiet hours; null removes them."""


class PreviewBody(TypedDict):
    """The messages of one user."""

    complete: bool
    """Whether the user would get a message on each channel, unless preferences or quiet hours prevent it."""
    messages: list[PreviewedMessage]
    warnings: list[FieldErrorBody]
    """The warnings that the response to the send would have."""


class PreviewRequest(TypedDict):
    """The body of a request to POST /v1/previews."""

    type: str
    club_id: int
    channels: NotRequired[list[Literal["push", "email", "sms"]]]
    template: NotRequired[str | None]
    data: NotRequired[dict[str, str]]
    locale: NotRequired[str | None]
    push: NotRequired[PushFields | None]
    user_id: NotRequired[int | None]
    """The user; without it, the values in `user`."""
    user: NotRequired[PreviewUser | None]
    draft: NotRequired[Draft | None]


class PreviewUser(TypedDict):
    """The values of a user that does not have to exist."""

    first_name: NotRequired[str]
    last_name: NotRequired[str]
    locale: NotRequired[str]
    attributes: NotRequired[dict[str, str | bool | int | float | None]]


class PreviewedCountry(TypedDict):
    """The SMS to a country of the tenant, as it is billed."""

    country: str
    """ISO 3166, two letters."""
    segments: int
    usd: float


class PreviewedMessage(TypedDict):
    """The message on one channel."""

    channel: str
    template: PreviewedTemplate | None
    """Null: a draft, or title and body of the data."""
    fields: dict[str, str] | None
    """The texts: title, body and url of a push; subject, text and html of an e-mail; text of an SMS. Null: there is no
message."""
    missing: list[str]
    """The variables without a value; in the texts, their names in brackets replace them."""
    problem: str | None
    """The reason why the user would not get this message."""
    problem_text: CodedBody | None
    """The code of the reason, with its values."""
    platforms: list[PreviewedPlatform]
    """The push on each platform; empty for another message, and for none."""
    sms: PreviewedSms | None
    """Null for another message, and for none."""


class PreviewedPlatform(TypedDict):
    """A push as a platform gets it, without a `collapse_key`."""

    platform: Literal["ios", "android"]
    body: str
    """The body, which may be shortened."""
    shortened: bool
    payload_bytes: int
    too_large: bool
    """Whether the push fails, because the platform accepts 4,096 bytes."""


class PreviewedSms(TypedDict):
    """An SMS as it is sent, with the way to opt out if its recipients cannot answer STOP."""

    encoding: Literal["GSM-7", "UCS-2"]
    """That of the SMS with the most segments."""
    segments: int
    """The most segments of the SMS to a country; of the text alone if the tenant sends to none."""
    too_large: bool
    """Whether the SMS fails, because it has more than 6 segments."""
    countries: list[PreviewedCountry]
    prices_as_of: str | None
    """The day of the prices."""


class PreviewedTemplate(TypedDict):
    """The template that a message is rendered from."""

    id: int
    club_id: int | None
    """The tenant that the template belongs to; null: it is for every tenant."""
    locale: str


class ProblemBody(TypedDict):
    """Problem details (RFC 9457). Code, parameters and texts are those of the detail."""

    code: NotRequired[str]
    """Names the text. `x-texts` of `ProblemBody` has the codes; later versions may have further ones."""
    parameters: NotRequired[dict[str, str | int]]
    """The values in the text."""
    texts: NotRequired[dict[str, CodedBody]]
    """The codes of those values in `parameters` that are texts themselves, by the name of the value."""
    type: str
    title: str
    status: int
    detail: str
    errors: NotRequired[list[FieldErrorBody]]


class PushAction(TypedDict):
    """A button of a push, which the app shows."""

    id: str
    title: str
    url: NotRequired[str]
    """The address that the app opens: https, or the scheme of an app."""


class PushFields(TypedDict):
    """The options of a push. A silent one shows nothing: the app gets `data`."""

    image: NotRequired[str]
    """The address of a picture."""
    badge: NotRequired[int]
    """The number at the icon of the app; 0 removes it."""
    sound: NotRequired[str]
    """The name of a sound of the app, or `default`."""
    silent: NotRequired[bool]
    """Whether the push has `data` only. Quiet hours and frequency caps do not apply to it."""
    android_channel: NotRequired[str]
    """The id of a notification channel of the Android app."""
    interruption_level: NotRequired[Literal["passive", "active", "time_sensitive", "critical"]]
    """Apple's interruption level."""
    actions: NotRequired[list[PushAction]]
    """Buttons."""
    data: NotRequired[dict[str, str]]
    """Values for the app."""


class QuietHoursBody(TypedDict):
    """The time of day, in the user's time zone, at which the user gets no notification."""

    start: str
    """HH:MM, inclusive."""
    end: str
    """HH:MM, exclusive; before the start: on the next day."""


type Reason = Literal[
    "opted_out",
    "not_opted_in",
    "unknown_user",
    "not_following",
    "no_device",
    "no_address",
    "device_inactive",
    "frequency_cap",
    "not_needed",
    "address_suppressed",
    "no_template",
    "template_error",
    "invalid_address",
    "country_not_allowed",
    "spend_limit",
    "provider_rejected",
    "dead_letter",
    "unknown_channel",
    "too_large",
    "bounced_permanent",
    "bounced_transient",
    "complained",
    "expired",
    "cancelled",
    "replaced",
]


class RecipientBody(TypedDict):
    """A notification of a send."""

    user_id: int
    channel: str
    status: str
    reason: str | None
    decision: str
    """The status and its reason in words."""
    decided_by: DecidedBy | None
    """The data of the decision; null if neither a rule nor user settings determined the status."""
    at: str | None
    """The time of the status."""
    links: Links


class RecipientsBody(TypedDict):
    """The notifications of a send."""

    send_id: str
    rows: list[RecipientBody]
    truncated: bool
    next_cursor: str | None
    since: str | None
    """The beginning of the stored log; null: no notification is missing."""
    watermark: str | None
    generated_at: str | None


class RecurringSend(TypedDict):
    """The send of a schedule: a send without times and without an id of its own."""

    type: str
    """The category, as in schemas/categories.yaml; a category that is not listed there has the file's default settings."""
    club_id: int
    """The tenant (club)."""
    channels: NotRequired[list[Literal["push", "email", "sms"] | ChannelCondition | ChannelAlone]]
    """The channels: push, email; if empty, those of the category."""
    template: NotRequired[str | None]
    """The type of the template, if it differs from the category."""
    data: NotRequired[dict[str, str]]
    """Variables for the template, the same for every recipient."""
    locale: NotRequired[str | None]
    """The locale (BCP 47); null: each user's own."""
    push: NotRequired[PushFields | None]
    """The options of its pushes: a JSON object with image, badge, sound, silent, android_channel, interruption_level, actions and data, of at most 2,048 bytes."""
    audience: NotRequired[dict[str, Any] | None]
    """Users of the club by conditions or a saved audience (docs/audiences.md), instead of to_users."""
    to_users: NotRequired[list[int]]
    """User ids by position; a repeated id counts once, at its first position."""
    recipient_data: NotRequired[dict[str, dict[str, str]]]
    """Variables of single recipients, which replace those of data: user id → name → text."""
    priority: NotRequired[Literal["bulk", "critical"]]
    """The lane of the send. That of a critical category is critical without it."""
    collapse_key: NotRequired[str | None]
    """A later push with the same key replaces the earlier one on the device."""
    reference: NotRequired[str | None]
    """The producer's own id of the send; it is copied into derived records."""
    digest: NotRequired[DigestRequest | None]
    """How the notifications are collected; by default as the category says."""
    per_minute: NotRequired[int | None]
    """The most recipients that are released in a minute."""
    spread_over: NotRequired[str | None]
    """Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d."""


class RefusedEventsBody(TypedDict):
    """The events of a rule that became no send, for one reason."""

    reason: str
    detail: str
    """Of the last event: the scope that is missing, or the limit."""
    events: int
    """Their number. An event whose processing is repeated may count again."""
    last_at: str


class RefusedWebhookBody(TypedDict):
    """A webhook that became no event."""

    at: str
    """The time of its receipt."""
    reason: str
    detail: str
    """The field of the event and its problem, without a value of the webhook."""


class RemovedSuppressionBody(TypedDict):
    """The removal of a suppression."""

    id: str
    status: Literal["removed"]


class ReplayWebhooksRequest(TypedDict):
    """Which dead letters are sent again: those with these ids, or those of a span and a type."""

    ids: NotRequired[list[str]]
    after: NotRequired[str]
    """The id or the time after which the span begins."""
    up_to: NotRequired[str]
    """The id of the last one of the span, or a time."""
    type: NotRequired[str]


class ReplayedBody(TypedDict):
    """A replayed dead letter."""

    position: str
    status: Literal["replayed"]
    topic: str
    """The topic to which the record was produced again."""


class ReplayedWebhooksBody(TypedDict):
    """Dead letters that are sent again, and deleted."""

    replayed: int
    truncated: bool
    """Whether the span may have more: repeat the request."""


class RescheduleBody(TypedDict):
    """A send after its move, or after the change of its pace."""

    send_id: str
    status: Literal["scheduled", "paced"]
    send_at: str | None
    """Null after a change of the pace."""
    per_minute: int | None
    """Null after a move."""
    links: Links


class RescheduleRequest(TypedDict):
    """The body of a request to move a scheduled send, or to change the pace of a send: one of the two."""

    send_at: NotRequired[str]
    """The new time, in RFC 3339 with an offset."""
    per_minute: NotRequired[int]
    """The most recipients that are released in a minute from now on, of a send with a pace."""


class ResumeBody(TypedDict):
    """The end of a send's pause."""

    send_id: str
    status: Literal["resumed"]
    resumed_at: str
    links: Links


class RevisedBucket(TypedDict):
    """A complete bucket that late records have changed."""

    bucket: str
    revised_at: str


class RevokedKeyBody(TypedDict):
    """A revoked API key."""

    id: str
    status: Literal["revoked"]
    expires_at: str


class RotateKeyRequest(TypedDict):
    """The body of a request to rotate an API key."""

    hours: NotRequired[int]
    """The previous key is valid for this time: 0 to 720, by default 24."""


class RowBody(TypedDict):
    """The row of the directory that decides."""

    table: str
    """A table of the monolith as schemas/source.yaml names it, or preference_changes (changes through masscomm that the
monolith has not applied), tenant_preferences, device_state or suppressions."""
    version: int
    """It increases with each change of the row; that of user settings is in decision records."""
    changed_at: str | None
    """null: the time of the newest change is unknown."""


class SavedAudienceBody(TypedDict):
    """A saved audience."""

    name: str
    changed_at: str
    audience: dict[str, Any]
    """Its conditions, as in a send."""
    etag: str
    """The header `ETag`, for `If-Match` of a change."""


class SavedAudienceFields(TypedDict):
    """The body of a request to PUT /v1/audiences/{name}."""

    audience: dict[str, Any]
    """The conditions of docs/audiences.md, without `except_users`, which a send names."""


class SavedAudienceRow(TypedDict):
    """A saved audience in a list."""

    name: str
    changed_at: str
    """The time of its last change."""


class SavedAudiencesBody(TypedDict):
    """The saved audiences of a club, in the order of their names."""

    rows: list[SavedAudienceRow]


class ScheduleBody(TypedDict):
    """A schedule."""

    name: str
    state: Literal["active", "paused", "ended"]
    paused: PausedBody | None
    rule: str
    time_zone: str
    type: str
    next: NextTime | None
    changed_at: str
    starts_at_local: str
    expires_after_minutes: int | None
    catch_up: Literal["none", "last"]
    owner: str
    """The principal that changed or resumed it last: each occurrence is made with its permissions and limits."""
    send: dict[str, Any]
    """The send; without `users:read`, one to users has neither them nor its data."""
    next_times: list[NextTime]
    """The next occurrences, at most ten, if it is active."""
    history: list[OccurrenceBody]
    """The last occurrences, the latest first."""


class ScheduleRequest(TypedDict):
    """The body of a request to PUT /v1/schedules/{schedule}."""

    rule: str
    """An RRULE of RFC 5545, such as `FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0`. It ends by UNTIL or COUNT."""
    time_zone: str
    """The time zone of the rule, such as `Europe/Zurich`."""
    starts_at_local: str
    """The date and time in this zone from which the rule counts, and whose parts it has where it names none."""
    expires_after_minutes: NotRequired[int | None]
    """The minutes after an occurrence at which its send expires."""
    catch_up: NotRequired[Literal["none", "last"]]
    """What becomes of occurrences that are more than 15 minutes late: they are skipped, or with `last` the newest is made."""
    send: RecurringSend
    """The send: the body of `POST /v1/sends` without its times."""


class ScheduleRow(TypedDict):
    """A schedule in a list."""

    name: str
    state: Literal["active", "paused", "ended"]
    """ended: the rule has no further time."""
    paused: PausedBody | None
    rule: str
    time_zone: str
    type: str
    """The category of its sends."""
    next: NextTime | None
    """The next occurrence, if it is active."""
    changed_at: str


class SchedulesBody(TypedDict):
    """The schedules of a club, in the order of their names."""

    rows: list[ScheduleRow]


type Scope = Literal[
    "send",
    "send:critical",
    "send:mandatory",
    "send:content",
    "read",
    "users:read",
    "users:write",
    "webhooks",
    "events",
    "operate",
    "admin",
]


class SendBody(TypedDict):
    """A send with its notifications by status."""

    send_id: str
    club_id: int
    type: str
    origin: Origin
    """What made the send: a request, or a digest, whose message it is."""
    reference: str | None
    """The requester's own id of the send, while the send is registered."""
    status: SendState
    requested_at: str | None
    send_at: str | None
    """The time to which the send was moved; otherwise its `send_at`, while the send is registered."""
    send_at_local: str | None
    """The `send_at_local` of a send that was not moved, while the send is registered."""
    chunks: Chunks
    requested: int | None
    """Null while the users of an audience are sought, and if only counts know it and do not answer."""
    duplicates: int | None
    counts_known: bool
    """False: the metrics database does not answer. All counts are null, and the status is that of the register."""
    channels: dict[str, Totals] | None
    totals: Totals | None
    conservation: Conservation | None
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    complete: bool
    """Whether each notification has a final status and is counted: the list of recipients and the metrics have it, too.
The send's status is cancelled, ended or failed."""
    control: ControlOfSend | None
    pace: PaceOfSend | None
    """Of a send with a pace, while the send is registered."""
    fallbacks: list[ConditionOfChannel]
    """The channels that wait for another one, while the send is registered."""
    expansion: ExpansionOfSend | None
    """Of a send to an audience, while the send is registered."""
    cancellation: CancellationOfSend | None
    generated_at: str


class SendEventBody(TypedDict):
    """A version of a send."""

    version: str
    """The value of `after` in the next request."""
    changed: bool
    complete: bool
    """Whether the send has ended: no further request is necessary."""
    send: SendBody | None
    """The body of GET /v1/sends/{send_id}, after a change."""


class SendListBody(TypedDict):
    """Sends, the latest first."""

    rows: list[ListedSend]
    truncated: bool
    """Whether there are more sends."""
    next_cursor: str | None
    counts_known: bool
    """False: the metrics database does not answer. Only sends are listed that are large, scheduled, to an audience or
controlled, and their counts are null."""
    registered_listed: bool
    """Whether sends without a counted record are listed. False for a caller of every club who names none: scheduled
sends to audiences are then missing, and without the metrics database all sends."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    kept_since: str | None
    """Sends whose first record was counted earlier are deleted; null: none is."""
    small_kept_since: str | None
    """Sends to at most 100 users that had ended, and did not change since, are deleted; null: none is."""
    generated_at: str


class SendRequest(TypedDict):
    """The body of a request to POST /v1/sends."""

    type: str
    """The category, as in schemas/categories.yaml; a category that is not listed there has the file's default settings."""
    club_id: int
    """The tenant (club)."""
    channels: NotRequired[list[Literal["push", "email", "sms"] | ChannelCondition | ChannelAlone]]
    """The channels: push, email; if empty, those of the category."""
    template: NotRequired[str | None]
    """The type of the template, if it differs from the category."""
    data: NotRequired[dict[str, str]]
    """Variables for the template, the same for every recipient."""
    locale: NotRequired[str | None]
    """The locale (BCP 47); null: each user's own."""
    push: NotRequired[PushFields | None]
    """The options of its pushes: a JSON object with image, badge, sound, silent, android_channel, interruption_level, actions and data, of at most 2,048 bytes."""
    audience: NotRequired[dict[str, Any] | None]
    """Users of the club by conditions or a saved audience (docs/audiences.md), instead of to_users."""
    to_users: NotRequired[list[int]]
    """User ids by position; a repeated id counts once, at its first position."""
    recipient_data: NotRequired[dict[str, dict[str, str]]]
    """Variables of single recipients, which replace those of data: user id → name → text."""
    priority: NotRequired[Literal["bulk", "critical"]]
    """The lane of the send. That of a critical category is critical without it."""
    collapse_key: NotRequired[str | None]
    """A later push with the same key replaces the earlier one on the device."""
    reference: NotRequired[str | None]
    """The producer's own id of the send; it is copied into derived records."""
    digest: NotRequired[DigestRequest | None]
    """How the notifications are collected; by default as the category says."""
    per_minute: NotRequired[int | None]
    """The most recipients that are released in a minute."""
    spread_over: NotRequired[str | None]
    """Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d."""
    audience_at: NotRequired[Literal["due", "request"] | None]
    """When the users of the audience of a scheduled send are found: at its time (`due`, the default) or at the request."""
    expires_at: NotRequired[str | None]
    """The time after which no message is published."""
    send_at: NotRequired[str | None]
    """The time before which no message is published."""
    send_at_local: NotRequired[str | None]
    """Instead of send_at, a date and time without a zone, such as 2026-11-24T09:00: no message is published before it in the recipient's own time zone."""
    send_id: NotRequired[str | None]
    """The id of the send, chosen by the caller: a random UUID in lower case. Without it, the service makes one. A name of the caller's own belongs into `reference`."""
    part_index: NotRequired[int]
    """Which of the requests of the send this one is, from 0."""
    part_count: NotRequired[int]
    """The number of requests under this send_id, in any order."""


type SendState = Literal[
    "expanding", "accepted", "scheduled", "in_progress", "paused", "cancelling", "cancelled", "ended", "failed"
]


class ShownSourceBody(TypedDict):
    """A source of incoming webhooks, with its last webhooks."""

    id: str
    url: str
    club_id: int
    scheme: str
    mapping: dict[str, Any]
    club_ids: list[int] | None
    description: str
    header: str
    encoding: str
    prefix: str
    id_header: str
    accepted: list[AcceptedWebhookBody]
    """The last ten webhooks that became events, the latest first. Of those that are accepted at once, some may be
missing."""
    refused: int
    """The number of all refused webhooks; 0 after 14 days without one."""
    refusals: list[RefusedWebhookBody]
    """The last 100 of them, the latest first."""


class SmallSend(TypedDict):
    """A send in a batch."""

    type: str
    club_id: int
    channels: NotRequired[list[Literal["push", "email", "sms"] | ChannelCondition | ChannelAlone]]
    template: NotRequired[str | None]
    data: NotRequired[dict[str, str]]
    locale: NotRequired[str | None]
    push: NotRequired[PushFields | None]
    audience: NotRequired[None]
    """A send of a batch names its users."""
    to_users: list[int]
    recipient_data: NotRequired[dict[str, dict[str, str]]]
    """Variables of single recipients, which replace those of data: user id → name → text."""
    priority: NotRequired[Literal["bulk", "critical"]]
    """The lane of the send. That of a critical category is critical without it."""
    collapse_key: NotRequired[str | None]
    reference: NotRequired[str | None]
    digest: NotRequired[DigestRequest | None]
    """How the notifications are collected; by default as the category says."""
    per_minute: NotRequired[int | None]
    """The most recipients that are released in a minute."""
    spread_over: NotRequired[str | None]
    """Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d."""
    audience_at: NotRequired[Literal["due", "request"] | None]
    """When the users of the audience of a scheduled send are found: at its time (`due`, the default) or at the request."""
    expires_at: NotRequired[str | None]
    send_at: NotRequired[str | None]
    send_at_local: NotRequired[str | None]
    send_id: NotRequired[None]
    """The id of a send of a batch follows from the batch's."""
    part_index: NotRequired[Literal[0]]
    """A send of a batch has one part."""
    part_count: NotRequired[Literal[1]]
    """A send of a batch has one part."""


class SourceBody(TypedDict):
    """A source of incoming webhooks, without its secret."""

    id: str
    url: str
    """The address to which the sender posts. Its id is as secret as a password."""
    club_id: int
    scheme: str
    mapping: dict[str, Any]
    club_ids: list[int] | None
    description: str
    header: str
    encoding: str
    prefix: str
    id_header: str


class SourceFields(TypedDict):
    """A source of incoming webhooks."""

    club_id: int
    """The tenant to which the source belongs."""
    scheme: str
    """How the sender signs: standard (Standard Webhooks), stripe, github, or hmac (HMAC-SHA256 of the body)."""
    mapping: dict[str, Any]
    """For type, club_id and optionally unit, key, occurred_at, event_id and data: a value, or a path in the body."""
    secret: NotRequired[str]
    """The secret of the signatures. Without it, a source that exists keeps its own."""
    club_ids: NotRequired[list[int] | None]
    """The tenants of its events; by default its own, null: every tenant."""
    description: NotRequired[str]
    header: NotRequired[str]
    """Of the scheme hmac: the header with the signature."""
    encoding: NotRequired[str]
    """Of the scheme hmac: hex (the default) or base64."""
    prefix: NotRequired[str]
    """Of the scheme hmac: the text before the signature, such as sha256=."""
    id_header: NotRequired[str]
    """Of the scheme hmac: the header with the id of a webhook, which its repetitions have as well."""


class SourcesBody(TypedDict):
    """The sources of a club."""

    rows: list[SourceBody]


type Status = Literal[
    "accepted",
    "scheduled",
    "held",
    "collected",
    "queued",
    "sending",
    "suppressed",
    "cancelled",
    "expired",
    "failed",
    "digested",
    "sent",
    "delivered",
    "bounced",
]


class StepBody(TypedDict):
    """A status that a notification reached."""

    at: str | None
    status: str
    reason: str | None
    decision: str
    """The status and its reason in words."""
    decided_by: DecidedBy | None
    """The data of the decision; null if neither a rule nor user settings determined the status."""


class StreamBody(TypedDict):
    """The state of counting, and the queried counts after a change."""

    cursor: str
    """The value of `since` in the next request."""
    changed: bool
    metrics: MetricsBody | None
    """The body of GET /v1/metrics, if the request has its parameters and counts have changed."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    complete: bool
    generated_at: str


class SubscriptionBody(TypedDict):
    """A subscription."""

    id: str
    endpoint_id: str | None
    """Null: its events become notifications."""
    types: list[str]
    club_ids: list[int] | None
    """Those that the caller may see; null: every tenant."""
    units: list[str]
    filter: dict[str, list[str | int | float | bool | None]]
    fields: list[str]
    """The paths in data that are sent; empty: all data."""
    notification: NotificationFields | None
    owner: str | None
    """The API key or person whose permissions and limits apply to the notifications."""
    refused: list[RefusedEventsBody]
    """The events that became no send since the rule was created, the latest reason first."""


class SubscriptionFields(TypedDict):
    """A new subscription. It has an endpoint, or a notification for users."""

    endpoint_id: NotRequired[str]
    types: list[str]
    """Event types, prefixes of whole parts such as `match.*`, or `*`."""
    club_ids: NotRequired[list[int]]
    """The tenants whose events match; missing: all that the caller may see now."""
    units: NotRequired[list[str]]
    """The units whose events match, each with the units below it; empty or missing: every unit."""
    filter: NotRequired[dict[str, list[str | int | float | bool | None]]]
    """A path in data, and the values that match; each path must match."""
    fields: NotRequired[list[str]]
    """The paths in data that are sent, such as player.id; empty or missing: all data."""
    notification: NotRequired[NotificationFields]
    """Each event becomes a send, with the permissions and limits of the caller at that time."""


class SubscriptionsBody(TypedDict):
    """The subscriptions of an endpoint, or those whose events become notifications."""

    rows: list[SubscriptionBody]


class SuppressionRow(TypedDict):
    """An address to which a club sends no e-mail."""

    id: str
    club_id: int
    address_id: str
    """The SHA-256 of the address in small letters, in hex. The address itself is not stored."""
    reason: str
    at: str
    expires_at: str


class SuppressionsBody(TypedDict):
    """Suppressions, the latest first."""

    rows: list[SuppressionRow]
    truncated: bool
    """Whether there are more suppressions."""
    next_cursor: str | None


class TemplateBody(TypedDict):
    """A template, without its body."""

    id: int
    club_id: int | None
    """The tenant that the template belongs to; null: it is for every tenant."""
    type: str
    channel: str
    locale: str
    title: str
    """The beginning of the title or subject, with its variables."""
    variables: list[str]
    """The variables that the template reads, such as `data.opponent`."""
    problem: str | None
    """The reason why no message can be rendered from the template."""
    problem_text: CodedBody | None
    """The code of the reason, with its values."""


class TemplatesBody(TypedDict):
    """Templates by id."""

    rows: list[TemplateBody]
    truncated: bool
    next_cursor: str | None


class TenantPreferencesBody(TypedDict):
    """The rules of a tenant, or of every tenant."""

    club_id: int | None
    """The tenant; null: the rules are for every tenant."""
    channels: dict[str, bool]
    """The rules for channels."""
    categories: dict[str, bool | dict[str, bool]]
    """The rules for categories."""
    changed_at: str | None
    """The time of the last change; null: there was none, or it is unknown."""
    etag: str
    """The header `ETag`, for `If-Match` of a change."""
    links: Links


class TenantPreferencesFields(TypedDict):
    """The body of a request to PUT /v1/tenants/{tenant}/preferences. It replaces all rules."""

    channels: NotRequired[dict[str, bool]]
    """Channel → whether users get it, for categories without a rule of their own."""
    categories: NotRequired[dict[str, bool | dict[str, bool]]]
    """Category → whether users get it, on every channel or by channel."""


class TodayBody(TypedDict):
    """Notifications that reached a status today; one that was sent and then delivered is in both numbers."""

    since: str
    requested: int
    sent: int
    delivered: int
    suppressed: int
    failed: int
    bounced: int


class Totals(TypedDict):
    """Numbers of notifications by status."""

    requested: int
    """0 while the users of an audience are sought."""
    duplicates: int
    """Users that were named more than once in a chunk; they are not counted in `requested`."""
    queued: int
    """Notifications that were written for delivery, whatever their later status is."""
    suppressed: dict[str, int]
    """By reason."""
    failed: dict[str, int]
    """By reason."""
    held: int
    """Notifications that wait for the end of quiet hours."""
    scheduled: int
    collected: int
    """Notifications that wait in digests."""
    digested: int
    """Notifications that are part of digests, whose messages are sends of their own."""
    cancelled: int
    expired: int
    sent: int
    delivered: int
    bounced: int
    in_flight: int
    """Requested notifications without a final status."""


class TrendingRow(TypedDict):
    """A category or a club with its counts."""

    type: NotRequired[str]
    club_id: NotRequired[int]
    count_total: NotRequired[int]
    before: NotRequired[int]
    """The count of the previous window."""


class TrendsBody(TypedDict):
    """The categories or clubs with the most notifications in a window."""

    by: Literal["type", "club_id"]
    measure: str
    start: str
    end: str
    rows: list[TrendingRow]
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    grace_ms: int
    complete: bool
    generated_at: str


class UserBody(TypedDict):
    """A user, as the directory has it. Addresses are not shown."""

    user_id: int
    club_id: int
    first_name: str
    last_name: str
    locale: str
    time_zone: str
    channels: list[str]
    """The channels on which the user can be reached: those with an address, or with an active device."""
    devices: list[UserDevice]
    """The devices by id, at most 50."""
    truncated: bool
    """Whether the user has more devices."""
    suppression: UserSuppression | None
    """null: the address is not suppressed, or the user has none."""
    row: RowBody
    """The row of names, locale and time zone."""
    links: UserLinks


class UserDevice(TypedDict):
    """A device of the user. Its token and its endpoint are not shown."""

    device_id: int
    platform: str
    status: DeviceStatus
    changed_at: str | None
    """The time of the newest change of the monolith's row; null: it is unknown."""
    row: RowBody
    """The row that decides about the status."""


class UserLinks(TypedDict):
    """The paths of the user."""

    self: str
    preferences: str
    notifications: str
    stream: str


class UserNotification(TypedDict):
    """A notification of the user, with its status."""

    at: str
    """The time at which the notification reached its status."""
    send_id: str
    channel: str
    club_id: int
    type: str
    status: str
    reason: str | None


class UserNotificationsBody(TypedDict):
    """A user's notifications, the latest first."""

    user_id: int
    rows: list[UserNotification]
    truncated: bool
    """Whether there are more notifications."""
    next_cursor: str | None
    since: str | None
    """The beginning of the stored log; null: no notification is missing."""
    watermark: str | None
    """The counts include all records that were in the topics at this time."""
    grace_ms: int
    complete: bool
    generated_at: str


class UserStreamBody(TypedDict):
    """A version of a user."""

    version: str
    """The value of `after` in the next request."""
    changed: bool
    user: UserBody | None
    """The body of GET /v1/users/{user_id}, after a change."""
    preferences: PreferencesBody | None
    """The body of GET /v1/users/{user_id}/preferences, after a change."""


class UserSuppression(TypedDict):
    """The suppression of the user's e-mail address: no e-mail is sent to it."""

    reason: str
    """As in outcomes: bounced_permanent or complained."""
    expires_at: str
    row: RowBody


class UsersBody(TypedDict):
    """Users by id."""

    rows: list[ListedUser]
    truncated: bool
    """Whether there are more users."""
    next_cursor: str | None


class WebhookBody(TypedDict):
    """An endpoint, without its secret."""

    id: str
    club_id: int
    url: str
    event_types: list[EventType]
    """Empty: every type."""
    description: str
    max_count: int
    """The most messages with events of a request: 1 to 1,000. With more than one, the body is a list of them."""
    max_bytes: int
    """The most bytes of a request with several messages: 1,000 to 1,000,000. A larger message goes alone."""
    max_wait_s: int
    """The most seconds that a message waits for others of its request: 1, or 60 to 3,600."""
    ordered: bool
    """Whether a message waits until those before it with the same `key` are accepted or given up."""
    max_concurrency: int
    """The most concurrent requests with events: 1 to 32."""
    rate_per_s: int | None
    """The most messages with events a second: 1 to 10,000; null: no limit."""
    format: BodyFormat
    """The form of events of systems; those of sends have the form `masscomm`."""
    role_arn: str | None
    """The role with which messages are sent to a queue or an event bus; null: the URL is a server's."""
    external_id: str | None
    """The external id that the trust policy of the role must require."""
    contact_user_id: int | None
    """The user of the tenant who gets an e-mail when masscomm disables it; null: no e-mail is sent."""
    enabled: bool
    disabled_reason: str | None
    """Why masscomm disabled it; null if it is enabled, or disabled by a request."""
    failing_since: str | None
    """The first failed attempt since the last successful one."""
    previous_secret_until: str | None
    """The time until which the previous secret also signs."""
    authentication: AuthenticationBody | None
    """Null: requests have their signature only."""
    created_at: str


class WebhookCountRow(TypedDict):
    """Attempts of a bucket."""

    bucket: str
    club_id: int
    """The tenant of the events."""
    type: str
    status: AttemptResult
    count_total: int
    duration_ms_mean: int
    """The mean duration of the attempts."""


class WebhookDeadLetterBody(TypedDict):
    """A message that is not attempted any more."""

    id: str
    message_id: str
    """The value of the header webhook-id of a request with this message only."""
    event_id: str
    type: str
    club_id: int
    data: dict[str, Any]
    """The data of the event."""
    occurred_at: str
    at: str
    """The time at which it became a dead letter."""
    reason: str
    attempts: int
    status: int | None
    """The status of the last response; null if there was none."""


class WebhookDeadLettersBody(TypedDict):
    """Dead letters, the oldest first."""

    rows: list[WebhookDeadLetterBody]
    truncated: bool
    """Whether there may be more. A page may have fewer rows than its limit."""
    next_cursor: str | None
    last: str | None
    """The value of `after` for the next poll; null if nothing was read."""


class WebhookLogBody(TypedDict):
    """Attempts to send messages to an endpoint, the latest first."""

    rows: list[WebhookLogBodyRow]
    truncated: bool
    """Whether there are more rows."""
    next_cursor: str | None
    kept_since: str | None
    """Earlier attempts are deleted; null: none is."""
    generated_at: str


class WebhookLogBodyRow(TypedDict):
    """An attempt to send a message."""

    at: str
    message_id: str
    """The `webhook-id` of a request with this message only."""
    event_id: str
    type: str
    club_id: int
    """The tenant of the event."""
    status: AttemptResult
    attempt: int
    """The number of the attempt, from 1."""
    http_status: int | None
    """The status of the response; null if there was none."""
    duration_ms: int
    error: str | None
    """Why there was no response, or no attempt."""


class WebhookMetricsBody(TypedDict):
    """Counts of the attempts to send messages to an endpoint."""

    granularity: Grain
    rows: list[WebhookCountRow]
    truncated: bool
    """Whether there are more rows."""
    next_cursor: str | None
    kept_since: str | None
    """Counts of earlier buckets are deleted; null: none is."""
    generated_at: str


class WebhooksBody(TypedDict):
    """Endpoints by club, in the order of their creation."""

    rows: list[WebhookBody]
    truncated: bool
    """Whether there are more clubs."""
    next_cursor: str | None


type DeadLettersStatus = Literal["open", "replayed", "discarded"]


class DeadLettersFilters(TypedDict):
    """The records that could not be processed, the latest first."""

    club_id: NotRequired[int]
    topic: NotRequired[str]
    reason: NotRequired[str]
    function: NotRequired[str]
    status: NotRequired[DeadLettersStatus]
    start: NotRequired[str]
    end: NotRequired[str]
    limit: NotRequired[int]


class DeviceCountsFilters(TypedDict):
    """The number of disabled devices by tenant and reason."""

    club_id: NotRequired[int | list[int]]


type DevicesReason = Literal["takes_nothing", "invalid_token", "invalid_row", "token_moved", "inactive", "deleted"]


class DevicesFilters(TypedDict):
    """The devices to which nothing is pushed, those disabled last first."""

    club_id: NotRequired[int | list[int]]
    reason: NotRequired[DevicesReason]
    limit: NotRequired[int]


type LatencyMeasure = Literal["sent", "delivered"]


class LatencyFilters(TypedDict):
    """How long notifications took from due to sent and delivered."""

    granularity: Grain
    start: str
    end: str
    type: NotRequired[str | list[str]]
    channel: NotRequired[str | list[str]]
    measure: NotRequired[LatencyMeasure | list[LatencyMeasure]]
    dimensions: NotRequired[str | list[str]]


type MetricsOrder = Literal["bucket", "-bucket", "-count_total"]


type MetricsFill = Literal["zero"]


type MetricsMeasure = Literal[
    "requested",
    "duplicate",
    "accepted",
    "scheduled",
    "held",
    "collected",
    "queued",
    "sending",
    "suppressed",
    "cancelled",
    "expired",
    "failed",
    "digested",
    "sent",
    "delivered",
    "bounced",
]


class MetricsFilters(TypedDict):
    """Counts by bucket."""

    granularity: Grain
    start: str
    end: str
    time_zone: NotRequired[str]
    order: NotRequired[MetricsOrder]
    fill: NotRequired[MetricsFill]
    limit: NotRequired[int]
    club_id: NotRequired[int | list[int]]
    type: NotRequired[str | list[str]]
    channel: NotRequired[str | list[str]]
    measure: NotRequired[MetricsMeasure | list[MetricsMeasure]]
    measures: NotRequired[str | list[str]]
    reason: NotRequired[Reason | list[Reason]]
    dimensions: NotRequired[str | list[str]]


class OverviewFilters(TypedDict):
    """Sends in progress, the counts of today, and open problems."""

    club_id: NotRequired[int | list[int]]
    hours: NotRequired[int]


class RecipientsFilters(TypedDict):
    """A send's notifications, each with its status and the decision in words."""

    status: NotRequired[Status | list[Status]]
    reason: NotRequired[str | list[str]]
    channel: NotRequired[str | list[str]]
    limit: NotRequired[int]


class SendsFilters(TypedDict):
    """The sends of the caller's tenants, the latest first."""

    start: NotRequired[str]
    end: NotRequired[str]
    type: NotRequired[str | list[str]]
    status: NotRequired[SendState | list[SendState]]
    origin: NotRequired[Origin | list[Origin]]
    search: NotRequired[str]
    limit: NotRequired[int]
    club_id: NotRequired[int | list[int]]


class SourcesFilters(TypedDict):
    """The sources of a club's incoming webhooks."""

    club_id: int


class SubscriptionsFilters(TypedDict):
    """The subscriptions of an endpoint to events, or the rules that make notifications of events."""

    endpoint_id: NotRequired[str]
    club_id: NotRequired[int]


class SuppressionsFilters(TypedDict):
    """The addresses to which no e-mail is sent, the latest first."""

    club_id: NotRequired[int | list[int]]
    address_id: NotRequired[str]
    limit: NotRequired[int]


class TemplatesFilters(TypedDict):
    """The templates of the caller's tenants and those for every tenant."""

    club_id: NotRequired[int | list[int]]
    type: NotRequired[str | list[str]]
    channel: NotRequired[str | list[str]]
    limit: NotRequired[int]


class UserNotificationsFilters(TypedDict):
    """A user's notifications with their statuses."""

    start: NotRequired[str]
    end: NotRequired[str]
    limit: NotRequired[int]
    club_id: NotRequired[int | list[int]]
    channel: NotRequired[str | list[str]]


class WebhookDeadLettersFilters(TypedDict):
    """The dead letters of a webhook endpoint in the last 14 days, the oldest first."""

    after: NotRequired[str]
    up_to: NotRequired[str]
    type: NotRequired[str]
    limit: NotRequired[int]


class WebhookDeliveriesFilters(TypedDict):
    """The deliveries of a webhook endpoint in the last 30 days, the latest first."""

    limit: NotRequired[int]


class WebhookLogFilters(TypedDict):
    """Attempts to send events to an endpoint."""

    start: NotRequired[str]
    end: NotRequired[str]
    type: NotRequired[str | list[str]]
    status: NotRequired[AttemptResult | list[AttemptResult]]
    limit: NotRequired[int]


class WebhookMetricsFilters(TypedDict):
    """Counts of the attempts to send events to an endpoint."""

    granularity: Grain
    start: str
    end: str
    type: NotRequired[str | list[str]]
    status: NotRequired[AttemptResult | list[AttemptResult]]
    limit: NotRequired[int]


class WebhooksFilters(TypedDict):
    """The webhook endpoints of the caller's tenants."""

    club_id: NotRequired[int | list[int]]
