package masscomm.client;

import java.time.Duration;

/**
 * The options of a client.
 *
 * @param attempts the maximum number of attempts of each request
 * @param timeout the time that one attempt may take
 * @param sleep the function that waits between two attempts, for tests
 */
public record ClientOptions(int attempts, Duration timeout, Sleep sleep) {
    /** Check the options. */
    public ClientOptions {
        if (attempts < 1) throw new IllegalArgumentException("attempts must be at least 1");
    }

    /** Four attempts of 30 seconds. */
    public ClientOptions() {
        this(4, Duration.ofSeconds(30), pause -> Thread.sleep(pause.toMillis()));
    }

    /**
     * Return these options with another number of attempts.
     *
     * @param attempts the maximum number of attempts of each request
     * @return the changed options
     */
    public ClientOptions withAttempts(int attempts) {
        return new ClientOptions(attempts, timeout, sleep);
    }

    /**
     * Return these options with another time for an attempt.
     *
     * @param timeout the time that one attempt may take
     * @return the changed options
     */
    public ClientOptions withTimeout(Duration timeout) {
        return new ClientOptions(attempts, timeout, sleep);
    }

    /**
     * Return these options with another function that waits.
     *
     * @param sleep the function
     * @return the changed options
     */
    public ClientOptions withSleep(Sleep sleep) {
        return new ClientOptions(attempts, timeout, sleep);
    }

    /** Waits between two attempts. */
    @FunctionalInterface
    public interface Sleep {
        /**
         * Wait.
         *
         * @param pause the time
         * @throws InterruptedException if the thread is interrupted
         */
        void sleep(Duration pause) throws InterruptedException;
    }
}
