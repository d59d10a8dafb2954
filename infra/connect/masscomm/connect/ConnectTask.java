package masscomm.connect;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublisher;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.connect.cli.ConnectDistributed;

/**
 * A worker of Kafka Connect with its connectors, for a container. It submits the connectors to its own REST interface,
 * which no other host reaches, and exits with status 1 when Kafka Connect refuses one or one has failed: ECS starts
 * another task then, which resumes at the stored offsets. Environment variables: CONNECT_PROPERTIES has the worker's
 * properties, CONNECTORS a JSON object with the configuration of each connector by its name, CONNECT_URL the address of
 * the REST interface.
 */
public final class ConnectTask {
    private static final Duration PAUSE = Duration.ofSeconds(5);
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HttpClient CLIENT = HttpClient.newBuilder().connectTimeout(PAUSE).build();

    private ConnectTask() {
    }

    public static void main(String[] arguments) throws IOException {
        Path properties = Files.createTempFile("connect", ".properties");
        Files.writeString(properties, System.getenv("CONNECT_PROPERTIES"));
        JsonNode connectors = JSON.readTree(System.getenv("CONNECTORS"));
        Thread supervisor = new Thread(() -> supervise(connectors), "connectors");
        supervisor.setDaemon(true);
        supervisor.start();
        ConnectDistributed.main(new String[] {properties.toString()});
    }

    /** Submit the connectors, and end the process when one of them or its task has failed. */
    private static void supervise(JsonNode connectors) {
        try {
            for (Map.Entry<String, JsonNode> each : connectors.properties()) {
                submit(each.getKey(), each.getValue());
            }
            while (true) {
                Thread.sleep(PAUSE.toMillis());
                for (Map.Entry<String, JsonNode> each : connectors.properties()) {
                    HttpResponse<String> response = call("GET", each.getKey() + "/status", BodyPublishers.noBody());
                    boolean known = response.statusCode() == 200;
                    if (known && JSON.readTree(response.body()).findValuesAsText("state").contains("FAILED")) {
                        throw new IllegalStateException(each.getKey() + " has failed: see the log above");
                    }
                }
            }
        } catch (IOException | InterruptedException | RuntimeException error) {
            System.err.println("Kafka Connect ends: " + error);
            System.exit(1);
        }
    }

    private static void submit(String name, JsonNode configuration) throws IOException, InterruptedException {
        while (true) {
            int status = 0;
            try {
                status = call("PUT", name + "/config", BodyPublishers.ofString(configuration.toString())).statusCode();
            } catch (ConnectException starting) {
                // The worker does not listen yet; if it cannot start, it ends the process.
            }
            if (status == 200 || status == 201) {
                return;
            }
            // The worker answers 409 while it joins its group, and 404, 500 or 503 before it has read its topics.
            if (status == 400) {
                throw new IllegalStateException("Kafka Connect refuses the configuration of " + name);
            }
            Thread.sleep(PAUSE.toMillis());
        }
    }

    private static HttpResponse<String> call(String method, String path, BodyPublisher body)
        throws IOException, InterruptedException {
        URI address = URI.create(System.getenv("CONNECT_URL") + "/connectors/" + path);
        HttpRequest request = HttpRequest.newBuilder(address)
            .timeout(Duration.ofSeconds(90))
            .header("Content-Type", "application/json")
            .method(method, body)
            .build();
        return CLIENT.send(request, BodyHandlers.ofString());
    }
}
