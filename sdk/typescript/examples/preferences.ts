import { Client } from "masscomm-client";

const client = new Client(process.env.MASSCOMM_API_URL!, { key: process.env.MASSCOMM_API_KEY! });
const preferences = await client.request("PUT", "/v1/users/{user_id}/preferences", {
  path: { user_id: 42 },
  body: { categories: { news: { push: false } } },
});
for (const each of preferences.effective) {
  console.log(each.category, each.channel, each.wanted ? "yes" : "no");
}
