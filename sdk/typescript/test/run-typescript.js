/** Runs a file in TypeScript: node --import ./test/run-typescript.js FILE. Its types are checked by `npm test`. */

import { readFileSync } from "node:fs";
import { register } from "node:module";
import { fileURLToPath } from "node:url";
import { isMainThread } from "node:worker_threads";

// Node.js executes the hooks below in a thread of their own. The compiler takes a second to load, so only they load it.
const ts = isMainThread ? undefined : (await import("typescript")).default;
if (isMainThread) register(import.meta.url);

export function load(url, context, next) {
  if (!url.endsWith(".ts")) return next(url, context);
  const compilerOptions = { module: ts.ModuleKind.ES2022, target: ts.ScriptTarget.ES2022 };
  const { outputText: source } = ts.transpileModule(readFileSync(fileURLToPath(url), "utf8"), { compilerOptions });
  return { format: "module", shortCircuit: true, source };
}
