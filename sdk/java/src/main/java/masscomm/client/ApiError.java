package masscomm.client;

import java.io.IOException;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import masscomm.client.Types.FieldErrorBody;

/**
 * The API refused a request, or could not execute it in any attempt: a problem of RFC 9457.
 *
 * <p>An attempt without a response is a {@link java.io.UncheckedIOException} instead.
 */
public final class ApiError extends RuntimeException {
    private static final long serialVersionUID = 1;
    /** The maximum length of a text that is not JSON, such as the page of a proxy. */
    private static final int LONGEST_TEXT = 500;

    private final int status;
    private final String detail;
    private final transient List<FieldErrorBody> errors;
    private final Duration retryAfter;

    private ApiError(int status, String detail, List<FieldErrorBody> errors, Duration retryAfter) {
        super(message(status, detail, errors));
        this.status = status;
        this.detail = detail;
        this.errors = errors;
        this.retryAfter = retryAfter;
    }

    /** Return the error in a response. */
    static ApiError of(HttpResponse<String> response) {
        Map<String, Object> problem;
        try {
            problem = Json.members(response.body());
        } catch (IOException notJson) {
            String text = response.body();
            problem = Map.of("detail", text.substring(0, Math.min(text.length(), LONGEST_TEXT)));
        }
        String detail = String.valueOf(problem.getOrDefault("detail", "no detail"));
        List<FieldErrorBody> errors = problem.get("errors") instanceof List<?> given
                ? Body.listOf(Body.body(FieldErrorBody::new)).apply(given)
                : List.of();
        return new ApiError(response.statusCode(), detail, errors, retryAfter(response).orElse(null));
    }

    /** Return the time in Retry-After. A date is ignored. */
    static Optional<Duration> retryAfter(HttpResponse<?> response) {
        return response.headers()
                .firstValue("Retry-After")
                .filter(text -> text.matches("[0-9]{1,9}"))
                .map(text -> Duration.ofSeconds(Long.parseLong(text)));
    }

    /**
     * Return the HTTP status.
     *
     * @return the status, such as 404
     */
    public int status() {
        return status;
    }

    /**
     * Return one sentence, as the API returned it.
     *
     * @return the sentence
     */
    public String detail() {
        return detail;
    }

    /**
     * Return the invalid fields.
     *
     * @return the fields, each with a reason; an empty list if the problem is another one
     */
    public List<FieldErrorBody> errors() {
        return errors;
    }

    /**
     * Return the time after which the request may succeed.
     *
     * @return the time; empty if the response has none
     */
    public Optional<Duration> retryAfter() {
        return Optional.ofNullable(retryAfter);
    }

    private static String message(int status, String detail, List<FieldErrorBody> errors) {
        List<String> parts = new ArrayList<>(List.of(detail));
        for (FieldErrorBody each : errors) {
            String field = String.valueOf(each.get("field"));
            String reason = String.valueOf(each.get("message"));
            // The detail of a request with one wrong field has both.
            if (!detail.contains(field) || !detail.contains(reason)) parts.add((field + " " + reason).strip());
        }
        return status + ": " + String.join("; ", parts);
    }
}
