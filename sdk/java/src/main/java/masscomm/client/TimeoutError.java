package masscomm.client;

/** A send that is followed has not ended in time. */
public final class TimeoutError extends RuntimeException {
    private static final long serialVersionUID = 1;

    TimeoutError(String message) {
        super(message);
    }
}
