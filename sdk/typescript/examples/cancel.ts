import { ApiError, Client } from "masscomm-client";

const client = new Client(process.env.MASSCOMM_API_URL!, { key: process.env.MASSCOMM_API_KEY! });
try {
  const path = { send_id: process.argv[2]! };
  const cancelled = await client.request("POST", "/v1/sends/{send_id}/cancel", { path });
  console.log(cancelled.status);
} catch (error) {
  if (!(error instanceof ApiError)) throw error;
  console.log(error.status, error.detail);
}
