/** Tables that a person pastes or drops: the text of a CSV file, or cells of a spreadsheet. */

import { isRecipient, parseRecipients } from "./recipients";

export interface Column {
  /** The text of its header; empty: there is none. */
  name: string;
  /** The first cells that are not a header. */
  sample: string[];
  /** The number of cells that are user ids. */
  ids: number;
}

export interface Table {
  columns: Column[];
  /** The rows without the header. */
  rows: string[][];
}

const DELIMITERS = [",", ";", "\t"] as const;
const SAMPLE = 3;

/**
 * Return the table of a text; null if it is a list of user ids, or if no column has any. A text of numbers is a table if each of
 * its lines has the same number of cells, two or more: of a file of ids and postcodes, the postcodes would be other users.
 */
export function tableOf(text: string): Table | null {
  // A tab at the end of a row stays: its last cell is empty.
  const trimmed = text.replace(/^[\r\n ]+|[\r\n ]+$/g, "");
  const numbers = parseRecipients(trimmed).invalid.length === 0;
  const rows = numbers && !/[,;\t]/.test(trimmed) ? spacedRowsOf(trimmed) : rowsOf(trimmed, delimiterOf(trimmed));
  const [first, ...others] = rows;
  if (!first || others.some((row) => row.length !== first.length)) return null;
  if (numbers && (others.length === 0 || first.length === 1)) return null;
  const hasHeader = !first.some(isRecipient);
  const cells = hasHeader ? others : rows;
  const columns = first.map((name, index): Column => {
    const column = cells.map((row) => row[index]!);
    return { name: hasHeader ? name : "", sample: column.slice(0, SAMPLE), ids: column.filter(isRecipient).length };
  });
  return columns.some((column) => column.ids > 0) ? { columns, rows: cells } : null;
}

/** Return the column that most probably has the user ids: that with the most ids, and of equal ones that named so. */
export function likelyColumn(table: Table): number {
  const score = ({ ids, name }: Column): number => ids + (/user/i.test(name) ? 0.5 : /id/i.test(name) ? 0.25 : 0);
  return table.columns.reduce((best, column, index) => (score(column) > score(table.columns[best]!) ? index : best), 0);
}

/** Return the cells of a column as a list; cells that are not user ids are in it, so that they are refused by name. */
export function listOf(table: Table, index: number): string {
  return table.rows.map((row) => row[index]!).filter(Boolean).join("\n");
}

/** Return whether each cell of a table is a user id, so that the table may be a list in several columns. */
export const isList = (table: Table): boolean => table.columns.every((column) => column.ids === table.rows.length);

/** Return the cells of all columns as a list. */
export const wholeListOf = (table: Table): string => table.rows.map((row) => row.join(" ")).join("\n");

function delimiterOf(text: string): string {
  const line = text.split("\n", 1)[0]!.replace(/"(?:[^"]|"")*"/g, "");
  const count = (delimiter: string): number => line.split(delimiter).length;
  return DELIMITERS.reduce((best, each) => (count(each) > count(best) ? each : best));
}

/** Read rows whose cells are numbers with spaces between them. */
const spacedRowsOf = (text: string): string[][] => text.split(/[\r\n]+/).map((line) => line.trim().split(/\s+/));

/** Read CSV (RFC 4180): a cell in quotation marks can contain delimiters, line breaks and doubled quotation marks. */
function rowsOf(text: string, delimiter: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const cell = new RegExp(`(?:"((?:[^"]|"")*)"|((?!")[^${delimiter}\\r\\n]*))(${delimiter}|\\r?\\n|\\r|$)`, "gy");
  for (;;) {
    const found = cell.exec(text);
    if (!found) return [];
    row.push((found[1] === undefined ? found[2]! : found[1].replaceAll('""', '"')).trim());
    if (found[3] === delimiter) continue;
    if (row.some(Boolean)) rows.push(row);
    row = [];
    if (cell.lastIndex >= text.length) return rows;
  }
}
