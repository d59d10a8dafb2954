package masscomm.client;

import java.time.Duration;

/**
 * The options of {@link Client#follow(String, FollowOptions)}.
 *
 * @param timeout the time after which following ends with a {@link TimeoutError}
 * @param poll the time between two reads
 * @param unknown the time in which the send may be unknown: a send by Kafka is, until it is counted
 */
public record FollowOptions(Duration timeout, Duration poll, Duration unknown) {
    /** A read each second, for an hour; unknown for 30 seconds. */
    public FollowOptions() {
        this(Duration.ofHours(1), Duration.ofSeconds(1), Duration.ofSeconds(30));
    }

    /**
     * Return these options with another end.
     *
     * @param timeout the time after which following ends
     * @return the changed options
     */
    public FollowOptions withTimeout(Duration timeout) {
        return new FollowOptions(timeout, poll, unknown);
    }

    /**
     * Return these options with another pause.
     *
     * @param poll the time between two reads
     * @return the changed options
     */
    public FollowOptions withPoll(Duration poll) {
        return new FollowOptions(timeout, poll, unknown);
    }

    /**
     * Return these options with another time in which the send may be unknown.
     *
     * @param unknown the time
     * @return the changed options
     */
    public FollowOptions withUnknown(Duration unknown) {
        return new FollowOptions(timeout, poll, unknown);
    }
}
