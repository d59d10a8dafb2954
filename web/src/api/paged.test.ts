import { effectScope } from "vue";
import { expect, test, vi } from "vitest";
import { refreshed, usePaged, type Paged } from "./paged";

function paged(read: Parameters<typeof usePaged<number>>[0]): Paged<number> {
  return effectScope().run(() => usePaged<number>(read))!;
}

test("further pages are appended until there is no cursor", async () => {
  const list = paged(async (cursor) => (cursor === null ? { rows: [1, 2], next_cursor: "c" } : { rows: [3], next_cursor: null }));
  await list.load();
  await list.more();
  expect([list.rows.value, list.cursor.value]).toEqual([[1, 2, 3], null]);
  await list.load();
  expect([list.rows.value, list.cursor.value]).toEqual([[1, 2], "c"]);
});

test("an overtaken response is ignored", async () => {
  const answers: ((rows: number[]) => void)[] = [];
  const list = paged(() => new Promise((resolve) => answers.push((rows) => resolve({ rows, next_cursor: null }))));
  const [first, second] = [list.load(), list.load()];
  answers[1]!([2]);
  answers[0]!([1]);
  await Promise.all([first, second]);
  expect(list.rows.value).toEqual([2]);
});

test("a list that is refused has no rows of the one before", async () => {
  let club = 1;
  const list = paged(async () => {
    if (club === 2) throw new Error("forbidden");
    return { rows: [club], next_cursor: "c" };
  });
  await list.load();
  club = 2;
  const second = list.load();
  expect([list.rows.value, list.busy.value]).toEqual([[1], true]);
  await second;
  expect([list.rows.value, list.cursor.value, list.busy.value, String(list.error.value)]).toEqual([null, null, false, "Error: forbidden"]);
});

test("a failed further page keeps the rows and is shown", async () => {
  let fails = false;
  const list = paged(async () => {
    if (fails) throw new Error("down");
    return { rows: [1], next_cursor: "c" };
  });
  await list.load();
  fails = true;
  await list.more();
  expect([list.rows.value, String(list.error.value)]).toEqual([[1], "Error: down"]);
});

/** A list whose pages a test answers one by one. */
function answered(): { list: Paged<number>; cursors: (string | null)[]; answer: (rows: number[], next?: string | null) => Promise<void> } {
  const waiting: ((page: { rows: number[]; next_cursor: string | null }) => void)[] = [];
  const cursors: (string | null)[] = [];
  const list = paged((cursor) => {
    cursors.push(cursor);
    return new Promise((resolve) => waiting.push(resolve));
  });
  const answer = async (rows: number[], next: string | null = null): Promise<void> => {
    await vi.waitFor(() => expect(waiting.length).toBeGreaterThan(0));
    waiting.shift()!({ rows, next_cursor: next });
    await new Promise((resolve) => setTimeout(resolve));
  };
  return { list, cursors, answer };
}

test("a double click appends one page", async () => {
  const { list, cursors, answer } = answered();
  void list.load();
  await answer([1, 2], "c");
  void list.more();
  void list.more();
  await answer([3], "d");
  expect([list.rows.value, cursors]).toEqual([[1, 2, 3], [null, "c"]]);
});

test("a page of earlier filters is not appended", async () => {
  const { list, cursors, answer } = answered();
  void list.load();
  await answer([1, 2], "c");
  void list.more();
  await vi.waitFor(() => expect(cursors).toEqual([null, "c"]));
  void list.load();
  await answer([3], "old");
  await answer([8, 9]);
  expect([list.rows.value, list.cursor.value, cursors]).toEqual([[8, 9], null, [null, "c", null]]);
});

test("refreshes that arrive during a request are one request after it", async () => {
  const { list, cursors, answer } = answered();
  void list.load();
  void list.refresh();
  void list.refresh();
  await answer([1]);
  expect(list.rows.value).toEqual([1]);
  void list.refresh();
  void list.refresh();
  await answer([2, 1]);
  await answer([3, 2, 1]);
  expect([list.rows.value, cursors.length]).toEqual([[3, 2, 1], 3]);
});

test("a refresh keeps the later pages and their cursor", async () => {
  const { list, answer } = answered();
  void list.load();
  await answer([5, 4], "c");
  void list.more();
  await answer([3, 2], "d");
  void list.refresh();
  await answer([6, 5], "b");
  expect([list.rows.value, list.cursor.value]).toEqual([[6, 5, 4, 3, 2], "d"]);
});

test("a first page without a known row takes the place of all rows", async () => {
  const { list, answer } = answered();
  void list.load();
  await answer([2, 1], "c");
  void list.refresh();
  await answer([9, 8], "n");
  expect([list.rows.value, list.cursor.value]).toEqual([[9, 8], "n"]);
});

test("a row that left the first page by its filter is not kept", () => {
  const keyOf = (row: number): number => row;
  expect(refreshed([5, 3, 2], [5, 4, 3, 2, 1], keyOf)).toEqual({ rows: [5, 3, 2, 1], joined: true });
  expect(refreshed([], [5, 4], keyOf)).toEqual({ rows: [], joined: false });
});
