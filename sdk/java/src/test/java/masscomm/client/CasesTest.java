package masscomm.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import masscomm.client.Types.AudienceFilters;
import masscomm.client.Types.CategoryFields;
import masscomm.client.Types.FieldErrorBody;
import masscomm.client.Types.SendRequest;
import masscomm.client.Types.SendsFilters;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** The cases that every client passes (sdk/cases.json), against a server on this machine. */
final class CasesTest {
    private static final Map<String, Object> CASES = cases();

    @TestFactory
    Stream<DynamicTest> requests() {
        return named("requests", CasesTest::checkRequest);
    }

    @TestFactory
    Stream<DynamicTest> webhooks() {
        return named("webhooks", CasesTest::checkWebhook);
    }

    private interface Check {
        void of(Map<String, Object> each) throws Exception;
    }

    private static Stream<DynamicTest> named(String group, Check check) {
        return list(CASES.get(group)).stream()
                .map(each -> DynamicTest.dynamicTest((String) map(each).get("name"), () -> check.of(map(each))));
    }

    private static void checkRequest(Map<String, Object> given) throws IOException {
        try (Script script = new Script(list(given.get("answers")))) {
            Map<String, Object> call = map(given.get("call"));
            if (given.containsKey("result")) assertEquals(given.get("result"), execute(script.client(), call));
            else checkError(given.get("error"), script.client(), call);
            checkRequests(script.received, map(given.get("requests")));
            checkPauses(script.pauses, list(Script.or(given.get("pauses"), List.of())));
        }
    }

    /** Call the method of an operation, and return its bodies as JSON. */
    private static Object execute(Client api, Map<String, Object> call) {
        String id = String.valueOf(call.get("id"));
        return switch ((String) call.get("operation")) {
            case "send" -> api.send(new SendRequest(map(call.get("body"))), (String) call.get("key")).members();
            case "get_send" -> api.getSend(id).members();
            case "cancel" -> api.cancel(id).members();
            case "delete_webhook" -> api.deleteWebhook(id).members();
            case "delete_audience" -> api.deleteAudience(
                            id, new AudienceFilters().clubId(((Number) call.get("club_id")).longValue()))
                    .members();
            case "delete_event_type" -> api.deleteEventType(id).members();
            case "delete_subscription" -> api.deleteSubscription(id).members();
            case "set_category" -> api.setCategory(
                            id, new CategoryFields(map(call.get("body"))), (String) call.get("if_match"), null)
                    .members();
            case "remove_suppression" -> api.removeSuppression(id).members();
            case "enable_device" -> api.enableDevice((Long) call.get("id")).members();
            case "sends" -> api.sends(new SendsFilters(map(call.get("query")))).stream().map(Body::members).toList();
            case "follow" -> api.follow(id, followOptions(call)).stream().map(Body::members).toList();
            default -> throw new IllegalArgumentException("unknown operation " + call);
        };
    }

    private static FollowOptions followOptions(Map<String, Object> call) {
        FollowOptions options = new FollowOptions();
        if (call.containsKey("poll_s")) options = options.withPoll(seconds(call.get("poll_s")));
        if (call.containsKey("timeout_s")) options = options.withTimeout(seconds(call.get("timeout_s")));
        if (call.containsKey("unknown_s")) options = options.withUnknown(seconds(call.get("unknown_s")));
        return options;
    }

    private static void checkError(Object expected, Client api, Map<String, Object> call) {
        RuntimeException thrown = assertThrows(RuntimeException.class, () -> execute(api, call));
        if (expected.equals("no response")) {
            assertInstanceOf(UncheckedIOException.class, thrown);
        } else if (expected instanceof String message) {
            assertEquals(message, assertInstanceOf(TimeoutError.class, thrown).getMessage());
        } else {
            ApiError error = assertInstanceOf(ApiError.class, thrown);
            Map<String, Object> found = new HashMap<>();
            found.put("status", error.status());
            found.put("detail", error.detail());
            found.put("errors", error.errors().stream().map(FieldErrorBody::members).toList());
            found.put("message", error.getMessage());
            found.put("retry_after_s", error.retryAfter().map(time -> (int) time.toSeconds()).orElse(null));
            assertEquals(expected, found);
        }
    }

    private static void checkRequests(List<Script.Received> received, Map<String, Object> expected) {
        assertEquals(expected.get("count"), received.size());
        assertEquals(1, received.stream().map(Script.Received::key).distinct().count(), "one key for all attempts");
        for (Script.Received each : received) {
            assertEquals("mc_test", each.apiKey());
            assertEquals(expected.get("if_match"), each.ifMatch());
            if (expected.containsKey("method")) assertEquals(expected.get("method"), each.method());
            if (expected.containsKey("path")) assertEquals(expected.get("path"), each.path());
            if (expected.containsKey("body")) assertEquals(expected.get("body"), each.body());
            if ("made".equals(expected.get("key"))) assertTrue(each.key().matches("[0-9a-f-]{36}"), each.key());
            else if (expected.containsKey("key")) assertEquals(expected.get("key"), each.key());
        }
        if (expected.containsKey("queries")) {
            assertEquals(expected.get("queries"), received.stream().map(Script.Received::query).toList());
        }
    }

    private static void checkPauses(List<Duration> waited, List<?> expected) {
        assertEquals(expected.size(), waited.size());
        for (int at = 0; at < waited.size(); at++) {
            if (expected.get(at) instanceof Map<?, ?> bound) {
                assertTrue(waited.get(at).compareTo(seconds(bound.get("at_most"))) <= 0, waited::toString);
            } else {
                assertEquals(seconds(expected.get(at)), waited.get(at));
            }
        }
    }

    /** A case has the differences from the first one. */
    private static void checkWebhook(Map<String, Object> given) {
        Map<String, Object> first = map(list(CASES.get("webhooks")).get(0));
        Map<String, Object> all = new HashMap<>(first);
        all.putAll(given);
        Map<String, Object> own = map(Script.or(given.get("headers"), Map.of()));
        Map<String, List<String>> headers = new HashMap<>();
        if (!own.containsKey("Webhook-Id")) {
            map(first.get("headers")).forEach((name, value) -> headers.put(name, List.of((String) value)));
        }
        own.forEach((name, value) -> headers.put(name, List.of((String) value)));
        UnaryOperator<String> header = Webhooks.firstOf(headers);
        List<String> secrets = list(all.get("secrets")).stream().map(String.class::cast).toList();
        byte[] body = ((String) all.get("body")).getBytes(StandardCharsets.UTF_8);
        Duration tolerance = seconds(Script.or(given.get("tolerance_s"), 300));
        Instant now = Instant.EPOCH.plus(seconds(all.get("now_s")));
        if (!given.containsKey("error")) {
            assertEquals(all.get("result"), Webhooks.verifyWebhook(secrets, header, body, tolerance, now));
            return;
        }
        RuntimeException thrown = assertThrows(
                RuntimeException.class, () -> Webhooks.verifyWebhook(secrets, header, body, tolerance, now));
        boolean isKnown = thrown instanceof WebhookError || thrown instanceof IllegalArgumentException;
        assertTrue(isKnown, thrown::toString);
        assertEquals(given.get("error"), thrown.getMessage());
    }

    private static Duration seconds(Object number) {
        return Duration.ofMillis(Math.round(((Number) number).doubleValue() * 1_000));
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> map(Object value) {
        return (Map<String, Object>) value;
    }

    private static List<?> list(Object value) {
        return (List<?>) value;
    }

    private static Map<String, Object> cases() {
        try {
            return Json.members(Files.readString(Path.of("..", "cases.json")));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
