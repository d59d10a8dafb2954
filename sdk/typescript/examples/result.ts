import { Client } from "masscomm-client";

const send_id = process.argv[2]!;
const client = new Client(process.env.MASSCOMM_API_URL!, { key: process.env.MASSCOMM_API_KEY! });
for await (const send of client.follow(send_id)) {
  console.log(send.status, send.requested);
}
for await (const row of client.rows("/v1/sends/{send_id}/recipients", { path: { send_id } })) {
  console.log(row.user_id, row.channel, row.status);
}
