package masscomm.client;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Verifies webhooks, as the specification Standard Webhooks 1.0.0 requires. */
public final class Webhooks {
    private static final Duration TOLERANCE = Duration.ofMinutes(5);

    private Webhooks() {}

    /**
     * Return the event in a webhook that is at most five minutes old.
     *
     * @param secrets the secrets of the endpoint; while one is rotated, the new and the previous one
     * @param header returns the value of a header of the request by its name: {@code request::getHeader} of a servlet
     * @param body the body as it was received: JSON that was parsed and written again has another signature
     * @return the members of the event
     * @throws WebhookError if none of the secrets signed the webhook, or not in time
     * @throws IllegalArgumentException if a secret is not base64
     */
    public static Map<String, Object> verifyWebhook(List<String> secrets, UnaryOperator<String> header, byte[] body) {
        return verifyWebhook(secrets, header, body, TOLERANCE, Instant.now());
    }

    /**
     * Return the event in a webhook that is at most five minutes old.
     *
     * @param secrets the secrets of the endpoint; while one is rotated, the new and the previous one
     * @param headers the headers of the request, with names in any case
     * @param body the body as it was received: JSON that was parsed and written again has another signature
     * @return the members of the event
     * @throws WebhookError if none of the secrets signed the webhook, or not in time
     * @throws IllegalArgumentException if a secret is not base64
     */
    public static Map<String, Object> verifyWebhook(
            List<String> secrets, Map<String, List<String>> headers, byte[] body) {
        return verifyWebhook(secrets, firstOf(headers), body);
    }

    /**
     * Return the event in a webhook.
     *
     * @param secrets the secrets of the endpoint; while one is rotated, the new and the previous one
     * @param header returns the value of a header of the request by its name: {@code request::getHeader} of a servlet
     * @param body the body as it was received: JSON that was parsed and written again has another signature
     * @param tolerance the greatest difference between the webhook's time and now
     * @param now the time now
     * @return the members of the event
     * @throws WebhookError if none of the secrets signed the webhook, or not in time
     * @throws IllegalArgumentException if a secret is not base64
     */
    public static Map<String, Object> verifyWebhook(
            List<String> secrets, UnaryOperator<String> header, byte[] body, Duration tolerance, Instant now) {
        String id = header.apply("webhook-id");
        String timestamp = header.apply("webhook-timestamp");
        String signature = header.apply("webhook-signature");
        if (isMissing(id) || isMissing(timestamp) || isMissing(signature)) {
            throw new WebhookError("a header of the webhook is missing");
        }
        if (!timestamp.matches("[0-9]{1,12}") || differenceFrom(now, timestamp).compareTo(tolerance) > 0) {
            throw new WebhookError("the time of the webhook is too far from now");
        }
        byte[] prefix = (id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8);
        for (String secret : secrets) {
            Mac mac = hmac(secret);
            mac.update(prefix);
            String expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
            for (String given : signature.split(" ")) {
                // A comparison in constant time reveals nothing about the signature.
                if (MessageDigest.isEqual(utf8(expected), utf8(given))) return membersOf(body);
            }
        }
        throw new WebhookError("none of the secrets signed the webhook");
    }

    /** Return a function that returns the first value of a header. */
    static UnaryOperator<String> firstOf(Map<String, List<String>> headers) {
        Map<String, List<String>> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        headers.forEach((name, values) -> {
            // The headers of URLConnection have the status line under null.
            if (name != null) given.put(name, values);
        });
        return name -> given.getOrDefault(name, List.of()).stream().findFirst().orElse(null);
    }

    private static boolean isMissing(String header) {
        return header == null || header.isEmpty();
    }

    private static Duration differenceFrom(Instant now, String timestamp) {
        return Duration.between(Instant.ofEpochSecond(Long.parseLong(timestamp)), now).abs();
    }

    /** Return the HMAC with the key in a secret. An empty key, with which anybody could sign, is refused. */
    private static Mac hmac(String secret) {
        byte[] key;
        try {
            key = Base64.getDecoder().decode(secret.startsWith("whsec_") ? secret.substring(6) : secret);
        } catch (IllegalArgumentException notBase64) {
            // The message of the decoder has a part of the secret.
            key = new byte[0];
        }
        if (key.length == 0) throw new IllegalArgumentException("a secret of the webhook is not base64");
        try {
            Mac mac = Mac.getInstance("HmacSHA256");
            mac.init(new SecretKeySpec(key, "HmacSHA256"));
            return mac;
        } catch (GeneralSecurityException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Map<String, Object> membersOf(byte[] body) {
        try {
            return Json.members(new String(body, StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
