import { ConnectionError } from "masscomm-client";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { bodyOf, getMetrics, listSends, listTemplates } from "./client";
import { endSession, session } from "./session";

vi.mock("./session", () => ({ session: { value: null }, endSession: vi.fn() }));

const asked = vi.fn<(request: Request) => Promise<Response>>();
const rows = (...ids: number[]): string => `{"rows": [${ids.map((id) => `{"id": ${id}}`)}], "next_cursor": "c"}`;
const signIn = (token: string): void => void (session.value = { token, person: "1", name: "Ada", scopes: new Set(), ended: false });

class PageRequest extends Request {
  constructor(url: string, init: RequestInit) {
    super(new URL(url, "http://console.test"), init);
  }
}

beforeEach(() => {
  vi.stubGlobal("Request", PageRequest);
  vi.stubGlobal("fetch", asked);
  asked.mockReset();
  vi.mocked(endSession).mockReset();
  signIn("t");
});
afterEach(() => vi.unstubAllGlobals());

test("empty values of a form are left out, lists are repeated", async () => {
  asked.mockResolvedValue(new Response(rows()));
  await listSends({ club_id: "", status: ["ended", "failed"], search: "x y", cursor: null });
  const [[request]] = asked.mock.calls as [[Request]];
  expect(new URL(request.url).search).toBe("?status=ended&status=failed&search=x+y");
  expect(request.headers.get("Authorization")).toBe("Bearer t");
});

test("templates are read up to their limit", async () => {
  asked.mockImplementation(async () => new Response(rows(1, 2)));
  const { signal } = new AbortController();
  expect(await listTemplates({ club_id: [1] }, 3, signal)).toHaveLength(3);
  expect(asked).toHaveBeenCalledTimes(2);
});

test("a refused token ends the session, unless it was renewed meanwhile", async () => {
  asked.mockImplementation(async () => new Response("{}", { status: 401 }));
  await expect(listSends({})).rejects.toMatchObject({ status: 401 });
  expect(endSession).toHaveBeenCalledOnce();
  asked.mockImplementation(async () => {
    signIn("renewed");
    return new Response("{}", { status: 401 });
  });
  await expect(listSends({})).rejects.toMatchObject({ status: 401 });
  expect(endSession).toHaveBeenCalledOnce();
});

test("a request that fails is not repeated", async () => {
  asked.mockResolvedValue(new Response("{}", { status: 503 }));
  await expect(listSends({})).rejects.toMatchObject({ status: 503 });
  expect(asked).toHaveBeenCalledOnce();
});

test("the watermark is that of the response, not of an earlier body", async () => {
  asked.mockResolvedValue(new Response('{"watermark": "1"}', { headers: { "Masscomm-Watermark": "2" } }));
  expect(await getMetrics({})).toEqual({ watermark: "2" });
});

test("an answer that is no JSON is that of an unreachable API", async () => {
  await expect(bodyOf(new Response("<html>"))).rejects.toThrow(ConnectionError);
});
