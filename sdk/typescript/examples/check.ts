import { Client } from "masscomm-client";

const client = new Client(process.env.MASSCOMM_API_URL!, { key: process.env.MASSCOMM_API_KEY! });
const data = { title: "Hello", body: "It works." };
const forecast = await client.request("POST", "/v1/dry-runs", {
  body: { type: "announcement", club_id: 1, to_users: [42, 43], data },
});
for (const each of forecast.channels) {
  console.log(each.channel, each.deliverable, "of", each.requested);
  for (const reason of each.reasons) console.log(reason.count_total, reason.status, reason.reason);
}
