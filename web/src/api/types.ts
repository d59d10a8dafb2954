/** The shapes of requests and responses, by the names that the pages use. */
import type { components } from "masscomm-client";

type Schemas = components["schemas"];

export type SendRequest = Schemas["SendRequest"];
export type AcceptedSend = Schemas["AcceptedBody"];
export type Forecast = Schemas["DryRunBody"];
export type ForecastReason = Schemas["DryRunReason"];
export type PreviewRequest = Schemas["PreviewRequest"];
export type Preview = Schemas["PreviewBody"];
export type PushFields = Schemas["PushFields"];
export type Categories = Schemas["CategoriesBody"];
export type ScheduleRow = Schemas["ScheduleRow"];
export type Schedule = Schemas["ScheduleBody"];
export type ScheduleRequest = Schemas["ScheduleRequest"];
export type Category = Schemas["CategoryRow"];
export type CategoryBody = Schemas["CategoryBody"];
export type CategoryValues = Schemas["CategoryValues"];
export type SavedAudienceRow = Schemas["SavedAudienceRow"];
export type AudienceCount = Schemas["CountBody"];
export type CategoryOfClub = Schemas["CategoryOfClub"];
export type CapFields = Schemas["CapFields"];
export type DigestFields = Schemas["DigestFields"];
export type CategoryFields = Schemas["CategoryFields"];
export type Templates = Schemas["TemplatesBody"];
export type Template = Schemas["TemplateBody"];
export type Totals = Schemas["Totals"];
export type Send = Schemas["SendBody"];
export type SentMessage = Schemas["MessageBody"];
export type SendEvent = Schemas["SendEventBody"];
export type SendRow = Schemas["ListedSend"];
export type SendList = Schemas["SendListBody"];
export type Metrics = Schemas["MetricsBody"];
export type Trends = Schemas["TrendsBody"];
export type Latencies = Schemas["LatencyBody"];
export type StreamPosition = Schemas["StreamBody"];
export type User = Schemas["UserBody"];
export type Preferences = Schemas["PreferencesBody"];
export type DirectoryRow = Schemas["RowBody"];
export type UserNotifications = Schemas["UserNotificationsBody"];
export type UserNotification = UserNotifications["rows"][number];
export type Recipients = Schemas["RecipientsBody"];
export type Recipient = Schemas["RecipientBody"];
export type Notification = Schemas["NotificationBody"];
export type Overview = Schemas["OverviewBody"];
export type OverviewHealth = Schemas["OverviewHealth"];
export type Health = Schemas["HealthBody"];
export type Alarms = Schemas["AlarmsBody"];
export type DeadLetters = Schemas["DeadLettersBody"];
export type DeadLetterRow = Schemas["DeadLetterRow"];
export type DeadLetter = Schemas["DeadLetterBody"];
export type Devices = Schemas["DisabledDevicesBody"];
export type DeviceCounts = Schemas["DisabledCountsBody"];
export type Suppressions = Schemas["SuppressionsBody"];
export type SuppressionRow = Schemas["SuppressionRow"];
export type Keys = Schemas["KeysBody"];
export type KeyRow = Schemas["KeyRow"];
export type Scope = Schemas["Scope"];
export type KeyRequest = Schemas["CreateKeyRequest"];
export type NewKey = Schemas["NewKeyBody"];
export type AuditPage = Schemas["AuditBody"];
export type AuditRow = Schemas["AuditRow"];
export type Webhooks = Schemas["WebhooksBody"];
export type WebhookEndpoint = Schemas["WebhookBody"];
export type WebhookRequest = Schemas["CreateWebhookRequest"];
export type WebhookAuthentication = Schemas["AuthenticationFields"];
export type WebhookChange = Schemas["ChangeWebhookRequest"];
export type NewWebhook = Schemas["NewWebhookBody"];
export type WebhookDeliveries = Schemas["DeliveriesBody"];
export type WebhookDelivery = Schemas["DeliveryBody"];
export type WebhookDeadLetter = Schemas["WebhookDeadLetterBody"];
export type WebhookSpan = Schemas["ReplayWebhooksRequest"];
export type AttemptResult = Schemas["AttemptResult"];
export type EventType = Schemas["EventType"];
/** A type of events that an operator described; `EventType` is one of masscomm's own. */
export type DescribedType = Schemas["EventTypeBody"];
export type EventFields = Schemas["EventFields"];
export type Subscription = Schemas["SubscriptionBody"];
export type SubscriptionFields = Schemas["SubscriptionFields"];
export type NotificationFields = Schemas["NotificationFields"];
export type EventSource = Schemas["SourceBody"];
export type ShownSource = Schemas["ShownSourceBody"];
export type SourceFields = Schemas["SourceFields"];
export type ProblemBody = Schemas["ProblemBody"];
export type FieldError = Schemas["FieldErrorBody"];
/** The code of a text of the API and the values in it, by which it can be translated. */
export type CodedBody = Pick<FieldError, "code" | "parameters" | "texts">;

// Each channel once: the type checker refuses a list that lacks one, or has another.
const CHANNEL: Record<NonNullable<PreviewRequest["channels"]>[number], true> = { push: true, email: true, sms: true };
export const CHANNELS = Object.keys(CHANNEL) as (keyof typeof CHANNEL)[];

/** The states of a notification, in the order of the bar. Each requested notification is in exactly one of them. */
export const STATUSES = [
  "delivered",
  "sent",
  "in_flight",
  "scheduled",
  "held",
  "collected",
  "digested",
  "suppressed",
  "cancelled",
  "expired",
  "bounced",
  "failed",
] as const;
export type StatusName = (typeof STATUSES)[number];

// Each status once: the type checker refuses a list that lacks one, or has another.
const LOGGED: Record<Schemas["Status"], true> = {
  accepted: true,
  scheduled: true,
  held: true,
  collected: true,
  queued: true,
  sending: true,
  sent: true,
  delivered: true,
  digested: true,
  suppressed: true,
  cancelled: true,
  expired: true,
  bounced: true,
  failed: true,
};
/** The statuses of the log of recipients, in the order in which a notification can reach them. */
export const LOGGED_STATUSES = Object.keys(LOGGED) as (keyof typeof LOGGED)[];
/** The states of a send whose notifications have all ended. */
export const FINAL: readonly string[] = ["ended", "cancelled", "failed"];
