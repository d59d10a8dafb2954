package masscomm.client;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.StandardSocketOptions;
import java.net.URLDecoder;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/** A server that answers requests in turn. One that refuses at first listens from the first pause on. */
final class Script implements AutoCloseable {
    record Received(String method, String path, List<List<String>> query, String key, String ifMatch, String apiKey, Object body) {}

    final List<Received> received = new ArrayList<>();
    final List<Duration> pauses = new ArrayList<>();
    private final Deque<Object> answers;
    private final SocketChannel reserved;
    private final SocketAddress address;
    private HttpServer server;
    /** Whether the last request was a GET without a response: Java's HttpClient repeats it once, in the same attempt. */
    private boolean isRepeated;

    Script(List<?> answers) throws IOException {
        this.answers = new ArrayDeque<>(answers);
        // A socket that does not listen keeps the port: connections are refused.
        reserved = SocketChannel.open().setOption(StandardSocketOptions.SO_REUSEADDR, true);
        reserved.bind(new InetSocketAddress("127.0.0.1", 0));
        address = reserved.getLocalAddress();
        if (this.answers.peek().equals("refused")) this.answers.remove();
        else listen();
    }

    String url() {
        return "http://127.0.0.1:" + ((InetSocketAddress) address).getPort();
    }

    Client client() {
        return new Client(url(), "mc_test", new ClientOptions().withSleep(this::sleep));
    }

    private void sleep(Duration pause) {
        pauses.add(pause);
        try {
            if (server == null) listen();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private void listen() throws IOException {
        server = HttpServer.create((InetSocketAddress) address, 0);
        server.createContext("/", this::answer);
        server.start();
    }

    private void answer(HttpExchange exchange) throws IOException {
        if (isRepeated) {
            isRepeated = false;
            exchange.close();
            return;
        }
        String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        received.add(new Received(
                exchange.getRequestMethod(),
                exchange.getRequestURI().getRawPath(),
                pairs(exchange.getRequestURI().getRawQuery()),
                exchange.getRequestHeaders().getFirst("Idempotency-Key"),
                exchange.getRequestHeaders().getFirst("If-Match"),
                exchange.getRequestHeaders().getFirst("x-api-key"),
                body.isEmpty() ? null : Json.read(body)));
        if (answers.remove() instanceof Map<?, ?> answer) {
            exchange.getResponseHeaders().set("Connection", "close");
            if (answer.get("headers") instanceof Map<?, ?> headers) {
                headers.forEach((name, value) -> exchange.getResponseHeaders().set((String) name, (String) value));
            }
            Object text = answer.get("text");
            byte[] content = (text == null ? Json.write(or(answer.get("body"), Map.of())) : (String) text)
                    .getBytes(StandardCharsets.UTF_8);
            exchange.sendResponseHeaders((Integer) answer.get("status"), content.length);
            exchange.getResponseBody().write(content);
        } else {
            isRepeated = exchange.getRequestMethod().equals("GET");
        }
        // Without a response, the connection ends.
        exchange.close();
    }

    static Object or(Object value, Object other) {
        return value == null ? other : value;
    }

    private static List<List<String>> pairs(String query) {
        if (query == null) return List.of();
        return Arrays.stream(query.split("&"))
                .map(pair -> Arrays.stream(pair.split("=")).map(Script::decoded).toList())
                .toList();
    }

    private static String decoded(String text) {
        return URLDecoder.decode(text, StandardCharsets.UTF_8);
    }

    @Override
    public void close() throws IOException {
        if (server != null) server.stop(0);
        reserved.close();
    }
}
