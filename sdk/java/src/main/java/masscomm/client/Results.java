package masscomm.client;

import java.util.Iterator;
import java.util.function.Supplier;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * Results that are requested while they are read: the next page of a list, or a send at its next change. Each iteration
 * begins with a request of its own, and throws the errors of {@link Client}.
 *
 * @param <T> the type of a result
 */
public final class Results<T> implements Iterable<T> {
    private final Supplier<Iterator<T>> begin;

    Results(Supplier<Iterator<T>> begin) {
        this.begin = begin;
    }

    @Override
    public Iterator<T> iterator() {
        return begin.get();
    }

    /**
     * Return the results as a stream.
     *
     * @return a sequential stream, which reads no further than it is read
     */
    public Stream<T> stream() {
        return StreamSupport.stream(spliterator(), false);
    }
}
