import { Client } from "masscomm-client";

const client = new Client("http://127.0.0.1:8080", { key: "mc_..." });
const { send_id } = await client.send({
  type: "announcement",
  club_id: 1,
  to_users: [42],
  data: { title: "Hello", body: "It works." },
});
for await (const progress of client.follow(send_id)) {
  console.log(progress.totals?.sent, "of", progress.requested);
}
for await (const row of client.rows("/v1/sends/{send_id}/recipients", { path: { send_id }, query: { channel: ["push"] } })) {
  console.log(row.user_id, row.status, row.reason);
}
