package masscomm.client;

import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.LongStream;

/**
 * A JSON object of a request or a response, with typed access to its members.
 *
 * <p>It keeps members that this version of the client does not know ({@link #get}). A member that was never set is
 * absent; one that was set to null is null: the API distinguishes them.
 */
public abstract class Body {
    /** Members whose values {@link #toString} hides. */
    private static final Set<String> SECRETS = Set.of("key", "secret");

    static final Function<Object, Object> ANY = value -> value;
    static final Function<Object, String> TEXT = String.class::cast;
    static final Function<Object, Boolean> BOOLEAN = Boolean.class::cast;
    static final Function<Object, Long> INTEGER = value -> ((Number) value).longValue();
    static final Function<Object, Double> NUMBER = value -> ((Number) value).doubleValue();

    private final Map<String, Object> members;

    Body(Map<String, ?> members) {
        this.members = new LinkedHashMap<>(members);
    }

    /**
     * Return the value of a member as JSON has it: a map, a list, a text, a number, a boolean or null.
     *
     * @param name the name in the API, such as {@code send_id}
     * @return the value; null if the member is absent
     */
    public final Object get(String name) {
        return members.get(name);
    }

    /**
     * Return every member by its name in the API.
     *
     * @return the members, which cannot be changed
     */
    public final Map<String, Object> members() {
        return Collections.unmodifiableMap(members);
    }

    @Override
    public final boolean equals(Object other) {
        return other != null && other.getClass() == getClass() && ((Body) other).members.equals(members);
    }

    @Override
    public final int hashCode() {
        return members.hashCode();
    }

    /**
     * Return the JSON text, in which each key and each secret is replaced.
     *
     * @return the text, for logs
     */
    @Override
    public final String toString() {
        Map<String, Object> shown = new LinkedHashMap<>(members);
        shown.replaceAll((name, value) -> SECRETS.contains(name) && value != null ? "***" : value);
        return Json.write(shown);
    }

    final void set(String name, Object value) {
        members.put(name, plain(value));
    }

    /** Return a member of the type that {@code type} reads; null if it is absent or null. */
    final <T> T optional(String name, Function<Object, T> type) {
        Object value = members.get(name);
        return value == null ? null : type.apply(value);
    }

    final <T> T required(String name, Function<Object, T> type) {
        T value = optional(name, type);
        if (value == null) throw new NoSuchElementException(name + " is absent");
        return value;
    }

    static <T> Function<Object, List<T>> listOf(Function<Object, T> type) {
        return value -> ((List<?>) value).stream().<T>map(type).toList();
    }

    static <T> Function<Object, Map<String, T>> mapOf(Function<Object, T> type) {
        return value -> {
            Map<String, T> found = new LinkedHashMap<>();
            ((Map<?, ?>) value).forEach((name, each) -> {
                found.put((String) name, each == null ? null : type.apply(each));
            });
            return found;
        };
    }

    @SuppressWarnings("unchecked")
    static <T> Function<Object, T> body(Function<Map<String, Object>, T> type) {
        return value -> type.apply((Map<String, Object>) value);
    }

    /** Return a value with maps in place of bodies. */
    private static Object plain(Object value) {
        if (value instanceof Body body) return body.members;
        if (value instanceof long[] values) return LongStream.of(values).boxed().toList();
        if (value instanceof Object[] values) return List.of(values);
        if (value instanceof Collection<?> values) return values.stream().map(Body::plain).toList();
        return value;
    }
}
