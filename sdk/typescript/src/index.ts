/** A client of masscomm's REST API. */

export { Client, type ClientOptions, type FollowOptions } from "./client.js";
export { ApiError, type FieldError } from "./errors.js";
export type { Id } from "./json.js";
export type { AcceptedBody, Answer, Arguments, ListPath, Method, PathOf, Row, SendBody, SendRequest } from "./routes.js";
export type { components, operations, paths } from "./schema.js";
export { verifyWebhook, WebhookError, type VerifyOptions } from "./webhooks.js";
