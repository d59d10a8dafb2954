/** A client of masscomm's REST API. */

export { Client, type CallOptions, type ClientOptions, type FollowOptions } from "./client.js";
export { ApiError, ConnectionError, type FieldError, type Problem } from "./errors.js";
export { numberOf, readJson, writeJson, type Id } from "./json.js";
export type {
  AcceptedBody,
  Answer,
  Arguments,
  ListPath,
  Method,
  Optional,
  PathOf,
  Row,
  SendBody,
  SendRequest,
} from "./routes.js";
export type { components, operations, paths } from "./schema.js";
export { verifyWebhook, WebhookError, type VerifyOptions } from "./webhooks.js";
