package masscomm.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import masscomm.client.Types.ListedSend;
import masscomm.client.Types.NewWebhookBody;
import masscomm.client.Types.PreferencesRequest;
import masscomm.client.Types.SendBody;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

final class ClientTest {
    private static final String SECRET = "mc_secret";

    @Test
    void keyIsInNoText() {
        Client client = new Client("http://127.0.0.1:1/", SECRET, new ClientOptions().withAttempts(1));
        Throwable refused = assertThrows(UncheckedIOException.class, client::health);
        for (String text : List.of(client.toString(), refused.toString(), refused.getCause().toString())) {
            assertFalse(text.contains(SECRET), text);
        }
    }

    /** A file ends with a line's end, which a header cannot have. */
    @Test
    void keyThatNoHeaderCanHaveIsRefusedWithoutItsText() {
        Throwable refused = assertThrows(IllegalArgumentException.class, () -> new Client("http://x", SECRET + "\n"));
        assertFalse(refused.toString().contains(SECRET), refused::toString);
    }

    @Test
    void secretOfAnEndpointIsHiddenInItsText() {
        NewWebhookBody created = new NewWebhookBody(Map.of("secret", "whsec_x"));
        assertEquals("whsec_x", created.secret());
        assertEquals("{\"secret\":\"***\"}", created.toString());
    }

    @Test
    @Timeout(60)
    void bodyThatStopsIsATimeOut() throws IOException {
        try (ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            CompletableFuture<Socket> accepted = CompletableFuture.supplyAsync(() -> answerInPart(server));
            ClientOptions options = new ClientOptions().withAttempts(1).withTimeout(Duration.ofMillis(200));
            Client client = new Client("http://127.0.0.1:" + server.getLocalPort(), null, options);
            Throwable thrown = assertThrows(UncheckedIOException.class, client::health);
            assertInstanceOf(HttpTimeoutException.class, thrown.getCause());
            accepted.join().close();
        }
    }

    private static Socket answerInPart(ServerSocket server) {
        try {
            Socket socket = server.accept();
            String head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{";
            socket.getOutputStream().write(head.getBytes(StandardCharsets.US_ASCII));
            return socket;
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Test
    void interruptedThreadEndsItsRequest() throws IOException {
        try (Script script = new Script(List.of(Map.of("status", 200)))) {
            Thread.currentThread().interrupt();
            assertThrows(UncheckedIOException.class, script.client()::health);
            assertEquals(true, Thread.interrupted());
        }
    }

    @Test
    void pageIsRequestedWhenItIsRead() throws IOException {
        Map<String, Object> first = Map.of("rows", List.of(Map.of("send_id", "1")), "next_cursor", "c");
        try (Script script = new Script(List.of(Map.of("status", 200, "body", first)))) {
            Iterator<ListedSend> sends = script.client().sends().iterator();
            assertEquals(0, script.received.size());
            assertEquals("1", sends.next().sendId());
            assertEquals(1, script.received.size());
        }
    }

    @Test
    void memberThatIsSetToNullIsSent() throws IOException {
        try (Script script = new Script(List.of(Map.of("status", 200)))) {
            script.client().setPreferences(42, new PreferencesRequest().quietHours(null));
            Map<?, ?> sent = (Map<?, ?>) script.received.get(0).body();
            assertEquals(true, sent.containsKey("quiet_hours"));
            assertNull(sent.get("quiet_hours"));
            assertFalse(sent.containsKey("channels"));
        }
    }

    /** A newer API may return further members. */
    @Test
    void unknownMemberIsKept() {
        SendBody send = new SendBody(Map.of("later", List.of(1)));
        assertEquals(List.of(1), send.get("later"));
        assertThrows(NoSuchElementException.class, send::complete);
        assertNull(send.reference());
    }
}
