import { Client } from "masscomm-client";

const client = new Client(process.env.MASSCOMM_API_URL!, { key: process.env.MASSCOMM_API_KEY! });
const send = await client.send({
  type: "announcement",
  club_id: 1,
  to_users: [42],
  data: { title: "Hello", body: "It works." },
});
console.log(send.send_id);
