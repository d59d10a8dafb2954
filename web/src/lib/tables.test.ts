import { expect, test } from "vitest";
import { isList, likelyColumn, listOf, tableOf, wholeListOf } from "./tables";

test.each(["42, 7;9\n1-3", "42\n43\n", "42,43", "42 43", "42,43\n44,45,46", "42,\n43"])("a list is no table: %j", (text) => {
  expect(tableOf(text)).toBeNull();
});

test.each(["Hello", "a,b\nc,d", "42, x\n43, 44, y", '"open,42\n1,2'])("a text without a column of ids is no table: %j", (text) => {
  expect(tableOf(text)).toBeNull();
});

test("the column with the ids is found by its cells and its header", () => {
  const table = tableOf("no,name,user_id\n1,Ada,42\n2,Grace,43\n")!;
  expect(table.columns).toEqual([
    { name: "no", sample: ["1", "2"], ids: 2 },
    { name: "name", sample: ["Ada", "Grace"], ids: 0 },
    { name: "user_id", sample: ["42", "43"], ids: 2 },
  ]);
  expect(likelyColumn(table)).toBe(2);
  expect(listOf(table, 2)).toBe("42\n43");
});

test("a header above one column of ids is left out", () => {
  const table = tableOf("\nUser\n42\n\n43")!;
  expect([table.columns.length, listOf(table, likelyColumn(table))]).toEqual([1, "42\n43"]);
});

test("a table without a header keeps its first row", () => {
  const table = tableOf("42;Ada\r\n43;Grace\r\n")!;
  expect(table.columns[0]).toEqual({ name: "", sample: ["42", "43"], ids: 2 });
  expect(listOf(table, 0)).toBe("42\n43");
});

test("cells of a spreadsheet and quoted cells are read", () => {
  expect(listOf(tableOf("name\tid\nAda\t42\nGrace\t43")!, 1)).toBe("42\n43");
  const quoted = tableOf('name,id\n"Lovelace, ""Ada""\nCountess",42\nGrace,"43"')!;
  expect(quoted.rows).toEqual([['Lovelace, "Ada"\nCountess', "42"], ["Grace", "43"]]);
});

test.each([
  "42\t7\r\n43\t7\r\n",
  "42,80331\n43,80333",
  "42;80331\n43;80333\n",
  " 42 80331\n 43   80333\n",
])("lines of numbers with the same number of cells are a table: %j", (text) => {
  const table = tableOf(text)!;
  expect(table.columns.map((column) => column.ids)).toEqual([2, 2]);
  expect(listOf(table, likelyColumn(table))).toBe("42\n43");
});

test("a list in columns can be taken as a whole", () => {
  const table = tableOf("42,43\n44,45")!;
  expect([isList(table), wholeListOf(table)]).toEqual([true, "42 43\n44 45"]);
  expect(isList(tableOf("42\t7\n43\t")!)).toBe(false);
});

test("a cell that is no id stays, so that it is refused by name", () => {
  const table = tableOf("id,name\n42,Ada\nx7,Grace\n,Nobody\n")!;
  expect(listOf(table, 0)).toBe("42\nx7");
});
