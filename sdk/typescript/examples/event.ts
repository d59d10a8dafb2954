import { Client } from "masscomm-client";

const client = new Client(process.env.MASSCOMM_API_URL!, { key: process.env.MASSCOMM_API_KEY! });
const event = { event_id: "match-4711", type: "match.finished", club_id: 1, data: { goals: [2, 1] } };
const accepted = await client.request("POST", "/v1/events", { body: { events: [event] } });
for (const each of accepted.events) console.log(each.event_id, each.status);
