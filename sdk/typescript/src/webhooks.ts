/** Verifies webhooks, as the specification Standard Webhooks 1.0.0 requires. */

import { readJson } from "./json.js";

/** A webhook that none of the secrets signed, or not in time. */
export class WebhookError extends Error {
  override readonly name = "WebhookError";
}

export interface VerifyOptions {
  /** The greatest difference between the webhook's time and now, in seconds. */
  toleranceS?: number;
  /** The time now, in seconds since 1970. */
  nowS?: number;
}

/**
 * Return the event in a webhook. Throws WebhookError.
 *
 * @param secrets The secrets of the endpoint; while one is rotated, the new and the previous one.
 * @param headers The headers of the request: a Headers object, or that of Node's IncomingMessage.
 * @param body The body as it was received: JSON that was parsed and written again has another signature.
 */
export async function verifyWebhook(
  secrets: readonly string[],
  headers: Headers | Readonly<Record<string, string | string[] | undefined>>,
  body: string | Uint8Array,
  { toleranceS = 300, nowS = Date.now() / 1_000 }: VerifyOptions = {},
): Promise<unknown> {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const given = new Headers(entries.map(([name, value]): [string, string] => [name, String(value)]));
  const [id, timestamp, signature] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map((name) => given.get(name));
  if (!id || !timestamp || !signature) throw new WebhookError("a header of the webhook is missing");
  if (!/^\d+$/.test(timestamp) || Math.abs(nowS - Number(timestamp)) > toleranceS) {
    throw new WebhookError("the time of the webhook is too far from now");
  }
  const encoder = new TextEncoder();
  const bytes = typeof body === "string" ? encoder.encode(body) : body;
  const prefix = encoder.encode(`${id}.${timestamp}.`);
  const content = new Uint8Array(prefix.length + bytes.length);
  content.set(prefix);
  content.set(bytes, prefix.length);
  const signatures = signature.split(" ").filter((each) => each.startsWith("v1,")).map((each) => bytesOf(each.slice(3)));
  for (const secret of secrets) {
    const raw = bytesOf(secret.replace(/^whsec_/, ""));
    if (raw === null || raw.length === 0) throw new TypeError("a secret of the webhook is not base64");
    const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    for (const each of signatures) {
      // WebCrypto compares in constant time.
      if (each !== null && (await crypto.subtle.verify("HMAC", key, each, content))) {
        return readJson(new TextDecoder().decode(bytes));
      }
    }
  }
  throw new WebhookError("none of the secrets signed the webhook");
}

/** Return the bytes of a base64 text; null if it is not base64. */
function bytesOf(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) return null;
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}
