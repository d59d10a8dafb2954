/** The types of the API's routes, taken from the OpenAPI document, and what the client knows of single routes. */

import type { operations, paths } from "./schema.js";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** The paths that have a method. */
export type PathOf<M extends Method> = {
  [P in keyof paths]: paths[P] extends Record<Lowercase<M>, object> ? P : never;
}[keyof paths];

type Operation<M extends Method, P> = P extends keyof paths
  ? Lowercase<M> extends keyof paths[P] ? paths[P][Lowercase<M>] : never
  : never;
type Part<O, Name extends string> = O extends { parameters: { [name in Name]?: infer Value } } ? NonNullable<Value> : never;
type JsonOf<O> = O extends { content: { "application/json": infer Value } } ? Value : never;
type Success<O> = O extends { responses: infer R } ? JsonOf<R[keyof R & (200 | 201 | 202)]> : never;
type RequestBody<O> = O extends { requestBody?: infer B } ? JsonOf<NonNullable<B>> : never;
/** An argument that is left out where the route has none, and required where one of its members is. */
type Argument<Name extends string, Value> = [Value] extends [never]
  ? { [name in Name]?: never }
  : Record<never, never> extends Value ? { [name in Name]?: Value } : { [name in Name]: Value };

/** The body of a route's successful response. */
export type Answer<M extends Method, P> = Success<Operation<M, P>>;

/** The path parameters, query and body of a route, and its idempotency key. */
export type Arguments<M extends Method, P> = Argument<"path", Part<Operation<M, P>, "path">> &
  Argument<"query", Part<Operation<M, P>, "query">> &
  Argument<"body", RequestBody<Operation<M, P>>> &
  (P extends KeyedPath ? { idempotencyKey?: string } : { idempotencyKey?: never });

/** The last argument of a method, which may be left out if none of its members is required. */
export type Optional<Given> = Record<never, never> extends Given ? [Given?] : [Given];

/** The lists: GET routes whose response has rows and a cursor. */
export type ListPath = {
  [P in PathOf<"GET">]: Answer<"GET", P> extends { rows: unknown[]; next_cursor: string | null } ? P : never;
}[PathOf<"GET">];
export type Row<P extends ListPath> = Answer<"GET", P> extends { rows: (infer Each)[] } ? Each : never;

export type SendRequest = RequestBody<operations["post_send"]>;
export type AcceptedBody = Success<operations["post_send"]>;
export type SendBody = Success<operations["get_send"]>;

type KeyedPath = {
  [P in PathOf<"POST">]: [Part<Operation<"POST", P>, "header">] extends [never] ? never : P;
}[PathOf<"POST">];
/** The requests that would act twice. The compiler compares them with the OpenAPI document. */
export const KEYED: Readonly<Record<KeyedPath, true>> = {
  "/v1/dead-letters/{position}/discard": true,
  "/v1/dead-letters/{position}/replay": true,
  "/v1/keys": true,
  "/v1/keys/{key_id}/rotate": true,
  "/v1/sends": true,
  "/v1/sends/batch": true,
  "/v1/webhooks": true,
  "/v1/webhooks/{endpoint_id}/deliveries/{delivery_id}/resend": true,
  "/v1/webhooks/{endpoint_id}/rotate": true,
  "/v1/webhooks/{endpoint_id}/test": true,
  "/v1/webhooks/{endpoint_id}/test/{event_type}": true,
};

/**
 * The body if the subject is unknown after an attempt that may have removed it from its list: a deleted endpoint, a
 * device that is no longer disabled.
 */
export const REMOVED: Readonly<Record<string, (path: Readonly<Record<string, unknown>>) => unknown>> = {
  "DELETE /v1/webhooks/{endpoint_id}": (path) => ({ id: path.endpoint_id, status: "deleted" }),
  "DELETE /v1/audiences/{name}": (path) => ({ name: path.name, status: "deleted" }),
  "DELETE /v1/schedules/{schedule}": (path) => ({ name: path.schedule, status: "deleted" }),
  "DELETE /v1/event-types/{event_type}": (path) => ({ name: path.event_type, status: "deleted" }),
  "DELETE /v1/subscriptions/{subscription_id}": (path) => ({ id: path.subscription_id, status: "deleted" }),
  "DELETE /v1/suppressions/{suppression}": (path) => ({ id: path.suppression, status: "removed" }),
  "POST /v1/devices/{device_id}/enable": (path) => ({ device_id: path.device_id, status: "requested" }),
};
