/** Sends, follows and lists on a running stack with the built package: its arguments are the URL, the key's file and a user. */

import { readFileSync } from "node:fs";
import { ApiError, Client } from "masscomm-client";

const [url, keyFile, user] = process.argv.slice(2);
const client = new Client(url, { key: readFileSync(keyFile, "utf8").trim(), attempts: 1 });
const data = { title: "Hello", body: "It works." };
const { send_id } = await client.send({ type: "announcement", club_id: 1, to_users: [BigInt(user)], data });
let ended;
for await (const send of client.follow(send_id)) ended = send;
const users = [];
for await (const row of client.rows("/v1/sends/{send_id}/recipients", { path: { send_id } })) users.push(String(row.user_id));
const sends = [];
for await (const row of client.rows("/v1/sends", { query: { club_id: [1], limit: 1 } })) sends.push(row.send_id);
const unknown = { path: { send_id: "00000000-0000-4000-8000-000000000000" } };
const refusal = await client.request("GET", "/v1/sends/{send_id}", unknown).catch((error) => error);
const status = refusal instanceof ApiError ? refusal.status : null;
console.log(JSON.stringify({ terminal: ended.conservation.terminal, requested: ended.requested, users, listed: sends.includes(send_id), status }));
