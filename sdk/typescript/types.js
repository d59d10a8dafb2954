/** Generates src/schema.ts from the OpenAPI document. Ids have the type Id: JavaScript's numbers would round large ones. */

import { writeFileSync } from "node:fs";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const DOCUMENT = new URL("../../docs/openapi/masscomm.json", import.meta.url);
const ID = ts.factory.createTypeReferenceNode("Id");
const LARGEST_ID = 2 ** 63;
// A field of the document, also one that may be null.
const ID_PATH = /\/((contact_)?(user_|club_|device_)?id|clubs|club_ids)(\/anyOf\/\d+)?$/;

const types = await openapiTS(DOCUMENT, {
  defaultNonNullable: false,
  inject: 'import type { Id } from "./json.js";\n',
  transform(schema, { path }) {
    const isId = schema.maximum === LARGEST_ID || ID_PATH.test(path ?? "");
    return schema.type === "integer" && isId ? ID : undefined;
  },
});
writeFileSync(new URL("src/schema.ts", import.meta.url), astToString(types));
