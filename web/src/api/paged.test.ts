import { effectScope } from "vue";
import { expect, test } from "vitest";
import { usePaged, type Paged } from "./paged";

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

test("a failure keeps the rows and is shown", async () => {
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
