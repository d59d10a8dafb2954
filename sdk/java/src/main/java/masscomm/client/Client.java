package masscomm.client;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Function;
import masscomm.client.Types.SendBody;

/**
 * A client of the API. Threads may share it.
 *
 * <p>A request is repeated after a connection error, a time-out, a 429 and a 5xx, and one with an idempotency key after
 * a 409 that says when: after {@code Retry-After}, or after a random pause. Each method throws {@link ApiError}, or
 * {@link UncheckedIOException} if the last attempt got no response.
 */
public final class Client extends Routes {
    private static final String KEY = "Idempotency-Key";
    /** Statuses after which the same request may succeed. */
    private static final Set<Integer> PASSING = Set.of(409, 429, 500, 502, 503, 504);

    private static final Duration FIRST_PAUSE = Duration.ofMillis(250);
    private static final Duration LONGEST_PAUSE = Duration.ofSeconds(30);
    /** The longest time for a connection, less than that of an attempt: the error says that no request was sent. */
    private static final Duration CONNECT_TIMEOUT = Duration.ofSeconds(10);

    private final String url;
    private final String key;
    private final ClientOptions options;
    private final HttpClient http;

    /**
     * Make a client with four attempts of 30 seconds for each request.
     *
     * @param url the base URL
     * @param key the API key; null sends none
     */
    public Client(String url, String key) {
        this(url, key, new ClientOptions());
    }

    /**
     * Make a client.
     *
     * @param url the base URL
     * @param key the API key; null sends none
     * @param options attempts, their time, and the function that waits
     */
    public Client(String url, String key, ClientOptions options) {
        // The message of HttpRequest would have the key.
        if (key != null && !key.matches("[!-~]+")) {
            throw new IllegalArgumentException("The API key is empty, or has a character that no key has.");
        }
        this.url = url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
        this.key = key;
        this.options = options;
        // By default, a request in clear text would have a header to upgrade to HTTP/2.
        this.http = HttpClient.newBuilder()
                .version(HttpClient.Version.HTTP_1_1)
                .followRedirects(HttpClient.Redirect.NEVER)
                .connectTimeout(CONNECT_TIMEOUT)
                .build();
    }

    /**
     * Return a send each time that it is read, until each of its notifications has ended: each second, for an hour at
     * most.
     *
     * @param sendId the id of the send
     * @return the send, as often as it is read
     */
    public Results<SendBody> follow(String sendId) {
        return follow(sendId, new FollowOptions());
    }

    /**
     * Return a send each time that it is read, until each of its notifications has ended. A send by Kafka is unknown
     * until it is counted; an iteration throws {@link ApiError} if it stays unknown, and {@link TimeoutError} after the
     * time of the options.
     *
     * @param sendId the id of the send
     * @param options the times
     * @return the send, as often as it is read
     */
    public Results<SendBody> follow(String sendId, FollowOptions options) {
        return new Results<>(() -> new Following(sendId, options));
    }

    /** Return the base URL, and not the key. */
    @Override
    public String toString() {
        return "Client(" + url + ")";
    }

    @Override
    <T> T execute(Call call, Function<Map<String, Object>, T> type) {
        HttpRequest request = request(call);
        boolean mayHaveActed = false;
        for (int attempt = 1; ; attempt++) {
            Attempt answer = attempt(request);
            HttpResponse<String> response = answer.response;
            if (response != null && response.statusCode() / 100 == 2) return type.apply(membersOf(response));
            // The attempt before has removed it.
            if (call.removed() != null && mayHaveActed && response != null && response.statusCode() == 404) {
                return type.apply(call.removed());
            }
            mayHaveActed |= response == null ? !wasNotSent(answer.error) : response.statusCode() >= 500;
            boolean isLast = attempt == options.attempts();
            if (response != null && (isLast || !mayPass(call, response))) throw ApiError.of(response);
            if (answer.error != null && isLast) throw new UncheckedIOException(answer.error);
            sleep(pause(attempt, response));
        }
    }

    @Override
    <T> Results<T> rows(String path, Body filters, Function<Map<String, Object>, T> type) {
        return new Results<>(() -> new Rows<>(path, filters, type));
    }

    private HttpRequest request(Call call) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + call.path()));
        if (key != null) request.header("x-api-key", key);
        if (call.key() != null) request.header(KEY, call.key());
        call.headers().forEach(request::header);
        if (call.body() == null) return request.method(call.method(), HttpRequest.BodyPublishers.noBody()).build();
        request.header("Content-Type", "application/json");
        return request.method(call.method(), HttpRequest.BodyPublishers.ofString(Json.write(call.body()))).build();
    }

    /** A response, or the error of an attempt without a response. */
    private record Attempt(HttpResponse<String> response, IOException error) {}

    private Attempt attempt(HttpRequest request) {
        CompletableFuture<HttpResponse<String>> answer = http.sendAsync(request, HttpResponse.BodyHandlers.ofString());
        try {
            // The time-out of a request would end when the headers arrive, and not include the body.
            return new Attempt(answer.get(options.timeout().toMillis(), TimeUnit.MILLISECONDS), null);
        } catch (TimeoutException error) {
            answer.cancel(true);
            return new Attempt(null, new HttpTimeoutException("no response in " + options.timeout()));
        } catch (ExecutionException error) {
            if (error.getCause() instanceof IOException cause) return new Attempt(null, cause);
            throw new IllegalStateException(error.getCause());
        } catch (InterruptedException error) {
            answer.cancel(true);
            throw interrupted();
        }
    }

    private void sleep(Duration pause) {
        try {
            options.sleep().sleep(pause);
        } catch (InterruptedException error) {
            throw interrupted();
        }
    }

    private static UncheckedIOException interrupted() {
        Thread.currentThread().interrupt();
        return new UncheckedIOException(new InterruptedIOException("the thread was interrupted"));
    }

    private static Map<String, Object> membersOf(HttpResponse<String> response) {
        try {
            return Json.members(response.body());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Return whether the same request may succeed soon. A conflict (409) passes if it says when. */
    private static boolean mayPass(Call call, HttpResponse<?> response) {
        Duration retryAfter = ApiError.retryAfter(response).orElse(Duration.ZERO);
        boolean saysWhen = response.headers().firstValue("Retry-After").isPresent();
        boolean isFinal = response.statusCode() == 409 && (call.key() == null || !saysWhen);
        return PASSING.contains(response.statusCode()) && !isFinal && retryAfter.compareTo(LONGEST_PAUSE) <= 0;
    }

    private static boolean wasNotSent(IOException error) {
        return error instanceof ConnectException || error instanceof HttpConnectTimeoutException;
    }

    /** Return the pause before the next attempt: Retry-After, else a random time that doubles its bound. */
    private static Duration pause(int attempt, HttpResponse<?> response) {
        if (response != null && ApiError.retryAfter(response).isPresent()) return ApiError.retryAfter(response).get();
        double bound = Math.min(LONGEST_PAUSE.toMillis(), FIRST_PAUSE.toMillis() * Math.pow(2, attempt));
        return Duration.ofMillis(Math.round(ThreadLocalRandom.current().nextDouble() * bound));
    }

    /** The rows of a list, from all pages. */
    private final class Rows<T> implements Iterator<T> {
        private final String path;
        private final Map<String, Object> query;
        private final Function<Map<String, Object>, T> type;
        private Iterator<T> page = List.<T>of().iterator();
        private boolean isLast;

        Rows(String path, Body filters, Function<Map<String, Object>, T> type) {
            this.path = path;
            this.query = new LinkedHashMap<>(filters.members());
            this.type = type;
        }

        @Override
        public boolean hasNext() {
            while (!page.hasNext() && !isLast) {
                Page found = execute(new Call("GET", Call.query(path, query)), Page::new);
                page = found.required("rows", Body.listOf(Body.body(type))).iterator();
                query.put("cursor", found.get("next_cursor"));
                isLast = found.get("next_cursor") == null;
            }
            return page.hasNext();
        }

        @Override
        public T next() {
            if (!hasNext()) throw new NoSuchElementException();
            return page.next();
        }
    }

    /** The members that every page of a list has. */
    private static final class Page extends Body {
        Page(Map<String, Object> members) {
            super(members);
        }
    }

    /** The reads of a send. */
    private final class Following implements Iterator<SendBody> {
        private final String sendId;
        private final FollowOptions times;
        private final long beganNs = System.nanoTime();
        private boolean isFirst = true;
        private SendBody latest;
        private SendBody next;

        Following(String sendId, FollowOptions times) {
            this.sendId = sendId;
            this.times = times;
        }

        @Override
        public boolean hasNext() {
            while (next == null && (latest == null || !latest.complete())) {
                if (!isFirst) pause();
                isFirst = false;
                try {
                    next = getSend(sendId);
                } catch (ApiError error) {
                    // It may be counted soon.
                    if (error.status() != 404 || untilNextRead().compareTo(times.unknown()) > 0) throw error;
                }
            }
            return next != null;
        }

        @Override
        public SendBody next() {
            if (!hasNext()) throw new NoSuchElementException();
            latest = next;
            next = null;
            return latest;
        }

        private Duration untilNextRead() {
            return Duration.ofNanos(System.nanoTime() - beganNs).plus(times.poll());
        }

        private void pause() {
            if (untilNextRead().compareTo(times.timeout()) > 0) {
                long waitedS = times.timeout().toSeconds();
                throw new TimeoutError("Send %s has not ended after %d s.".formatted(sendId, waitedS));
            }
            sleep(times.poll());
        }
    }
}
