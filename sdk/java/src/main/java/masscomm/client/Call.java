package masscomm.client;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/**
 * One request. Each may be repeated: those that would act twice have an idempotency key.
 *
 * @param path the path with its query
 * @param body the JSON value of the body; null if there is none
 * @param headers the conditions of a change
 * @param key the idempotency key of all attempts; null if the route has none
 * @param removed the members of the response if the subject is unknown after an attempt that may have removed it from
 *     its list: a deleted endpoint, a device that is no longer disabled; null for other routes
 */
record Call(
        String method, String path, Object body, Map<String, String> headers, String key, Map<String, Object> removed) {
    Call(String method, String path) {
        this(method, path, null, Map.of(), null, null);
    }

    Call with(Map<String, Object> body) {
        return new Call(method, path, body, headers, key, removed);
    }

    /** Return this request with a header; null is left out. */
    Call header(String name, String value) {
        if (value == null) return this;
        Map<String, String> all = new HashMap<>(headers);
        all.put(name, value);
        return new Call(method, path, body, all, key, removed);
    }

    /** Return this request with an idempotency key: the given one, or else one of its own. */
    Call once(String key) {
        return new Call(method, path, body, headers, key == null ? UUID.randomUUID().toString() : key, removed);
    }

    Call removing(Map<String, Object> removed) {
        return new Call(method, path, body, headers, key, removed);
    }

    /** Return a path, its parts quoted. */
    static String path(Object... parts) {
        StringBuilder path = new StringBuilder("/v1");
        for (Object part : parts) path.append('/').append(quoted(part));
        return path.toString();
    }

    /** Return a path with a query. A list becomes one parameter for each of its values; null is left out. */
    static String query(String path, Map<String, Object> parameters) {
        List<String> pairs = new ArrayList<>();
        parameters.forEach((name, value) -> {
            Collection<?> values = value instanceof Collection<?> given ? given : Collections.singleton(value);
            for (Object each : values) {
                if (each != null) pairs.add(quoted(name) + "=" + quoted(each));
            }
        });
        return pairs.isEmpty() ? path : path + "?" + String.join("&", pairs);
    }

    private static String quoted(Object part) {
        return URLEncoder.encode(String.valueOf(part), StandardCharsets.UTF_8).replace("+", "%20");
    }
}
