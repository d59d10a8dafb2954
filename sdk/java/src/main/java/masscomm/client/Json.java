package masscomm.client;

import com.fasterxml.jackson.jr.ob.JSON;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Map;

/** JSON as maps, lists, texts, numbers of any size, booleans and null. */
final class Json {
    private static final JSON JSON_ = JSON.std.with(JSON.Feature.WRITE_NULL_PROPERTIES);

    private Json() {}

    static Object read(String text) throws IOException {
        return JSON_.anyFrom(text);
    }

    /** Return the members of a JSON object. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> members(String text) throws IOException {
        if (read(text) instanceof Map<?, ?> members) return (Map<String, Object>) members;
        throw new IOException("The text is not a JSON object.");
    }

    static String write(Object value) {
        try {
            return JSON_.asString(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
