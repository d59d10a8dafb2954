import { createServer } from "node:http";
import { verifyWebhook, WebhookError } from "masscomm-client";

createServer(async (request, response) => {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part);
  try {
    const event = (await verifyWebhook([process.env.WEBHOOK_SECRET!], request.headers, Buffer.concat(parts))) as { type: string };
    console.log(event.type);
    response.writeHead(204).end();
  } catch (error) {
    if (!(error instanceof WebhookError)) throw error;
    response.writeHead(400).end();
  }
}).listen(Number(process.env.PORT), "127.0.0.1");
