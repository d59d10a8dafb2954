import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import masscomm.client.WebhookError;
import masscomm.client.Webhooks;

class Webhook {
    public static void main(String[] args) throws IOException {
        int port = Integer.parseInt(System.getenv("PORT"));
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            try {
                List<String> secrets = List.of(System.getenv("WEBHOOK_SECRET"));
                Map<String, Object> event = Webhooks.verifyWebhook(secrets, exchange.getRequestHeaders(), body);
                System.out.println(event.get("type"));
                exchange.sendResponseHeaders(204, -1);
            } catch (WebhookError error) {
                exchange.sendResponseHeaders(400, -1);
            }
            exchange.close();
        });
        server.start();
    }
}
