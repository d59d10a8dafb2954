import type { Send } from "../api/types";

/**
 * Return whether a send waits for its time, so that it can be moved. The time of a send by Kafka is not known, and that of
 * each recipient's own zone is several times: their notifications are scheduled then. Those of a send with a pace may wait for
 * their minute.
 */
export function waitsForItsTime(send: Pick<Send, "complete" | "cancellation" | "send_at" | "send_at_local" | "pace" | "totals">, nowMs: number): boolean {
  if (send.complete || send.cancellation) return false;
  return send.send_at ? Date.parse(send.send_at) > nowMs : (send.pace === null || send.send_at_local !== null) && (send.totals?.scheduled ?? 0) > 0;
}
