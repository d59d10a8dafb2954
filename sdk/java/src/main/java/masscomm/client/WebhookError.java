package masscomm.client;

/** A webhook that none of the secrets signed, or not in time. */
public final class WebhookError extends RuntimeException {
    private static final long serialVersionUID = 1;

    WebhookError(String message) {
        super(message);
    }
}
