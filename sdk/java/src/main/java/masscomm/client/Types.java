// Generated: python -m ops.openapi.java_client
package masscomm.client;

import java.util.List;
import java.util.Map;

/**
 * The bodies of requests and responses, and the parameters of lists. A method with a name alone returns a
 * member, or null if the API may leave it out. A method with a value sets a member.
 */
public final class Types {
    private Types() {}

    /** An accepted send. */
    public static final class AcceptedBody extends Body {
        AcceptedBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        /**
         * expanding: the users of the audience are sought, so that {@code requested} is not known yet. failed: of a
         * repeated request whose audience could not be expanded.
         */
        public String status() { return required("status", TEXT); }

        /** Distinct notifications: a user on a channel. Null while an audience is expanded. */
        public Long requested() { return optional("requested", INTEGER); }

        /** Repeated users; they are not counted in {@code requested}. */
        public long duplicates() { return required("duplicates", INTEGER); }

        public Links links() { return required("links", body(Links::new)); }

        /** Content that is not used, and templates that are missing. Absent if there is none. */
        public List<FieldErrorBody> warnings() { return optional("warnings", listOf(body(FieldErrorBody::new))); }
    }

    /** The members of AcceptedEvent. */
    public static final class AcceptedEvent extends Body {
        AcceptedEvent(Map<String, ?> members) { super(members); }

        public String eventId() { return required("event_id", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        /** {@code repeated}: the same event was accepted in the last 24 hours, and is not produced again. */
        public String status() { return required("status", TEXT); }
    }

    /** The events of a request, in its order. Kafka has each of them. */
    public static final class AcceptedEvents extends Body {
        AcceptedEvents(Map<String, ?> members) { super(members); }

        public List<AcceptedEvent> events() { return required("events", listOf(body(AcceptedEvent::new))); }
    }

    /** A webhook that became an event. */
    public static final class AcceptedWebhookBody extends Body {
        AcceptedWebhookBody(Map<String, ?> members) { super(members); }

        /** The time of its receipt. */
        public String at() { return required("at", TEXT); }

        public String eventId() { return required("event_id", TEXT); }

        public String type() { return required("type", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }
    }

    /** Which dead letters the caller has processed. */
    public static final class AcknowledgeWebhooksRequest extends Body {
        public AcknowledgeWebhooksRequest() { this(Map.of()); }

        AcknowledgeWebhooksRequest(Map<String, ?> members) { super(members); }

        /** The id of the last one, or a time. */
        public AcknowledgeWebhooksRequest upTo(String value) { set("up_to", value); return this; }
    }

    /** Acknowledged dead letters, which are deleted. */
    public static final class AcknowledgedWebhooksBody extends Body {
        AcknowledgedWebhooksBody(Map<String, ?> members) { super(members); }

        public long acknowledged() { return required("acknowledged", INTEGER); }

        /** Whether there are more up to this one: repeat the request. */
        public boolean truncated() { return required("truncated", BOOLEAN); }
    }

    /** An alarm. */
    public static final class AlarmRow extends Body {
        AlarmRow(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String state() { return required("state", TEXT); }

        /** The time at which this state began. */
        public String since() { return required("since", TEXT); }

        public String description() { return required("description", TEXT); }

        /** The name of the file in docs/runbooks, without {@code .md}. */
        public String runbook() { return optional("runbook", TEXT); }
    }

    /** The alarms of the installation. */
    public static final class AlarmsBody extends Body {
        AlarmsBody(Map<String, ?> members) { super(members); }

        /**
         * Whether alarms are evaluated. false: the state of this installation's alarms is unknown, as in the local
         * stack.
         */
        public boolean evaluated() { return required("evaluated", BOOLEAN); }

        /** Those that ring first, then those with too few values; in each state the latest change first. */
        public List<AlarmRow> rows() { return required("rows", listOf(body(AlarmRow::new))); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** One attempt of a delivery. */
    public static final class AttemptBody extends Body {
        AttemptBody(Map<String, ?> members) { super(members); }

        public String at() { return required("at", TEXT); }

        public long durationMs() { return required("duration_ms", INTEGER); }

        /** The status of the response; null if there was none. */
        public Long status() { return optional("status", INTEGER); }

        /** Why there was no response, or no attempt. */
        public String error() { return optional("error", TEXT); }

        /** Empty: the response's body is not kept. */
        public String body() { return required("body", TEXT); }
    }

    /** The result of an attempt to send a message with an event. A later version of the API may have further ones. */
    public static final class AttemptResult {
        public static final String DELIVERED = "delivered";
        public static final String RETRIED = "retried";
        public static final String GIVEN_UP = "given_up";

        private AttemptResult() {}
    }

    /** The parameters of {@link Client#saveAudience}. */
    public static final class AudienceFilters extends Body {
        public AudienceFilters() { this(Map.of()); }

        AudienceFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public AudienceFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** The parameters of {@link Client#audiences}. */
    public static final class AudiencesFilters extends Body {
        public AudiencesFilters() { this(Map.of()); }

        AudiencesFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public AudiencesFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** Entries of the audit log, the latest first. */
    public static final class AuditBody extends Body {
        AuditBody(Map<String, ?> members) { super(members); }

        public List<AuditRow> rows() { return required("rows", listOf(body(AuditRow::new))); }

        /** Whether there are more entries. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** An action of a principal. */
    public static final class AuditRow extends Body {
        AuditRow(Map<String, ?> members) { super(members); }

        public String at() { return required("at", TEXT); }

        /** null: every club. */
        public Long clubId() { return optional("club_id", INTEGER); }

        /** The id of an API key, or {@code operator:} and a name. */
        public String principal() { return required("principal", TEXT); }

        public String action() { return required("action", TEXT); }

        /** The id of the send, key or user, the position of the dead letter, or the digest of the address. */
        public String subject() { return required("subject", TEXT); }

        /** ok, or failed: the action may have had a part of its effect. */
        public String result() { return required("result", TEXT); }

        public String detail() { return required("detail", TEXT); }
    }

    /** The authentication of an endpoint, without its secrets. */
    public static final class AuthenticationBody extends Body {
        AuthenticationBody(Map<String, ?> members) { super(members); }

        public String type() { return required("type", TEXT); }

        /** The time at which it was set. */
        public String since() { return required("since", TEXT); }

        /** The time until which the previous one is used for requests that are refused. */
        public String previousUntil() { return optional("previous_until", TEXT); }

        public String username() { return optional("username", TEXT); }

        /** The names of the headers. */
        public List<String> headers() { return optional("headers", listOf(TEXT)); }

        public String tokenUrl() { return optional("token_url", TEXT); }

        public String clientId() { return optional("client_id", TEXT); }

        public String scope() { return optional("scope", TEXT); }

        public String audience() { return optional("audience", TEXT); }

        public String clientAuthentication() { return optional("client_authentication", TEXT); }

        /** The subject of the client certificate. */
        public String certificate() { return optional("certificate", TEXT); }

        /** The end of its validity. */
        public String certificateUntil() { return optional("certificate_until", TEXT); }
    }

    /** How masscomm authenticates its requests, in addition to their signature. */
    public static final class AuthenticationFields extends Body {
        public AuthenticationFields() { this(Map.of()); }

        AuthenticationFields(Map<String, ?> members) { super(members); }

        public AuthenticationFields type(String value) { set("type", value); return this; }

        /** bearer: the token. */
        public AuthenticationFields token(String value) { set("token", value); return this; }

        public AuthenticationFields username(String value) { set("username", value); return this; }

        /** basic: user name and password. */
        public AuthenticationFields password(String value) { set("password", value); return this; }

        /** headers: up to 10 headers, such as x-api-key. */
        public AuthenticationFields headers(Map<String, String> value) { set("headers", value); return this; }

        /** oauth2: the address from which access tokens are requested with client credentials. */
        public AuthenticationFields tokenUrl(String value) { set("token_url", value); return this; }

        public AuthenticationFields clientId(String value) { set("client_id", value); return this; }

        public AuthenticationFields clientSecret(String value) { set("client_secret", value); return this; }

        public AuthenticationFields scope(String value) { set("scope", value); return this; }

        public AuthenticationFields audience(String value) { set("audience", value); return this; }

        /** oauth2: whether id and secret are in the header Authorization (the default) or in the body. */
        public AuthenticationFields clientAuthentication(String value) { set("client_authentication", value); return this; }

        /** mtls: the client certificate in PEM, followed by those of its authorities. */
        public AuthenticationFields certificate(String value) { set("certificate", value); return this; }

        /** mtls: its private key in PEM, without a password. */
        public AuthenticationFields privateKey(String value) { set("private_key", value); return this; }
    }

    /** The values of AuthenticationType. A later version of the API may have further ones. */
    public static final class AuthenticationType {
        public static final String BEARER = "bearer";
        public static final String BASIC = "basic";
        public static final String HEADERS = "headers";
        public static final String OAUTH2 = "oauth2";
        public static final String MTLS = "mtls";

        private AuthenticationType() {}
    }

    /** The results of a batch. */
    public static final class BatchBody extends Body {
        BatchBody(Map<String, ?> members) { super(members); }

        public long accepted() { return required("accepted", INTEGER); }

        public long refused() { return required("refused", INTEGER); }

        public List<BatchResult> results() { return required("results", listOf(body(BatchResult::new))); }
    }

    /** The body of a request to POST /v1/sends/batch. */
    public static final class BatchRequest extends Body {
        public BatchRequest() { this(Map.of()); }

        BatchRequest(Map<String, ?> members) { super(members); }

        public BatchRequest sends(List<SmallSend> value) { set("sends", value); return this; }
    }

    /** The result of one send of the batch, in the order of the request. */
    public static final class BatchResult extends Body {
        BatchResult(Map<String, ?> members) { super(members); }

        /** 202, or the status of the problem. */
        public long status() { return required("status", INTEGER); }

        public AcceptedBody send() { return optional("send", body(AcceptedBody::new)); }

        public ProblemBody problem() { return optional("problem", body(ProblemBody::new)); }
    }

    /** The form in which an endpoint receives events of systems. A later version of the API may have further ones. */
    public static final class BodyFormat {
        public static final String MASSCOMM = "masscomm";
        public static final String CLOUDEVENTS = "cloudevents";

        private BodyFormat() {}
    }

    /** The recorded cancellation of a send. */
    public static final class CancelBody extends Body {
        CancelBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public String status() { return required("status", TEXT); }

        public String requestedAt() { return required("requested_at", TEXT); }

        /** Notifications that were counted as published at the request; null if the counts were unknown. */
        public Long publishedBefore() { return optional("published_before", INTEGER); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The cancellation of a send. */
    public static final class CancellationOfSend extends Body {
        CancellationOfSend(Map<String, ?> members) { super(members); }

        public String requestedAt() { return required("requested_at", TEXT); }

        /** Notifications that were published before the request; null if the counts were unknown then. */
        public Long publishedBefore() { return optional("published_before", INTEGER); }

        /** Notifications that were published between the request and its effect; null if this is unknown. */
        public Long publishedSince() { return optional("published_since", INTEGER); }

        /**
         * Whether the two numbers follow from the times of the outcomes. Otherwise they follow from the counts at the
         * request, which are seconds behind: {@code published_since} is an upper bound.
         */
        public boolean exact() { return required("exact", BOOLEAN); }
    }

    /** How many sends of a category a user gets in a window. */
    public static final class CapFields extends Body {
        public CapFields() { this(Map.of()); }

        CapFields(Map<String, ?> members) { super(members); }

        /** From 1 to 100. */
        public long limit() { return required("limit", INTEGER); }

        /** From 1 to 100. */
        public CapFields limit(long value) { set("limit", value); return this; }

        /**
         * {@code day}, the user's local day, or the length of a rolling window such as {@code 30m}, {@code 24h} or
         * {@code 7d}; at most 30 days.
         */
        public String window() { return required("window", TEXT); }

        /**
         * {@code day}, the user's local day, or the length of a rolling window such as {@code 30m}, {@code 24h} or
         * {@code 7d}; at most 30 days.
         */
        public CapFields window(String value) { set("window", value); return this; }

        /** Whether each channel counts by itself; otherwise a send counts once for all its channels. */
        public Boolean byChannel() { return optional("by_channel", BOOLEAN); }

        /** Whether each channel counts by itself; otherwise a send counts once for all its channels. */
        public CapFields byChannel(boolean value) { set("by_channel", value); return this; }

        /** The group whose categories count together; null: the category counts by itself. */
        public String group() { return optional("group", TEXT); }

        /** The group whose categories count together; null: the category counts by itself. */
        public CapFields group(String value) { set("group", value); return this; }
    }

    /** The categories of sends. */
    public static final class CategoriesBody extends Body {
        CategoriesBody(Map<String, ?> members) { super(members); }

        public List<CategoryRow> rows() { return required("rows", listOf(body(CategoryRow::new))); }
    }

    /** A category of sends with all its versions. */
    public static final class CategoryBody extends Body {
        CategoryBody(Map<String, ?> members) { super(members); }

        /** The value of the field {@code type} of a send. */
        public String type() { return required("type", TEXT); }

        /** The versions, the latest first. */
        public List<CategoryValues> versions() { return required("versions", listOf(body(CategoryValues::new))); }

        /** The header {@code ETag}, for {@code If-Match} of a change. */
        public String etag() { return required("etag", TEXT); }
    }

    /** The body of a request to PUT /v1/categories/{category}. It replaces the category. */
    public static final class CategoryFields extends Body {
        public CategoryFields() { this(Map.of()); }

        CategoryFields(Map<String, ?> members) { super(members); }

        /** The channels of a send that names none. */
        public CategoryFields channels(List<String> value) { set("channels", value); return this; }

        /** Whether an opt-out of the user does not apply. */
        public CategoryFields mandatory(boolean value) { set("mandatory", value); return this; }

        /** Whether its sends use the critical lane, to which no cap, digest, pace or quiet hours apply. */
        public CategoryFields critical(boolean value) { set("critical", value); return this; }

        /** The channels on which only users with a rule for the category get it. */
        public CategoryFields optIn(List<String> value) { set("opt_in", value); return this; }

        /** The frequency caps, at most four; null: those of the default category apply. */
        public CategoryFields caps(List<CapFields> value) { set("caps", value); return this; }

        /** How its notifications are collected; null: each goes out by itself. */
        public CategoryFields digest(DigestFields value) { set("digest", value); return this; }

        /** Whether the body of a push that is larger than a platform accepts is shortened. Otherwise it fails. */
        public CategoryFields shorten(boolean value) { set("shorten", value); return this; }

        /** The name that recipients see on the page of an unsubscribe link, by language such as {@code de}. */
        public CategoryFields titles(Map<String, String> value) { set("titles", value); return this; }

        /** A sentence for recipients about its content, by language. */
        public CategoryFields descriptions(Map<String, String> value) { set("descriptions", value); return this; }

        /** The clubs for which the category differs. */
        public CategoryFields clubs(List<ClubFields> value) { set("clubs", value); return this; }

        /** Whether new sends over REST are refused. Those by Kafka keep the rules of the category. */
        public CategoryFields retired(boolean value) { set("retired", value); return this; }
    }

    /** A category as it is for the sends of one club. */
    public static final class CategoryOfClub extends Body {
        CategoryOfClub(Map<String, ?> members) { super(members); }

        public long clubId() { return required("club_id", INTEGER); }

        public List<String> channels() { return required("channels", listOf(TEXT)); }

        public List<String> optIn() { return required("opt_in", listOf(TEXT)); }

        public List<CapFields> caps() { return optional("caps", listOf(body(CapFields::new))); }

        public DigestFields digest() { return optional("digest", body(DigestFields::new)); }
    }

    /** A category of sends, as it was put last. */
    public static final class CategoryRow extends Body {
        CategoryRow(Map<String, ?> members) { super(members); }

        public String validFrom() { return optional("valid_from", TEXT); }

        public List<String> channels() { return required("channels", listOf(TEXT)); }

        public boolean mandatory() { return required("mandatory", BOOLEAN); }

        public boolean critical() { return required("critical", BOOLEAN); }

        public List<String> optIn() { return required("opt_in", listOf(TEXT)); }

        public List<CapFields> caps() { return optional("caps", listOf(body(CapFields::new))); }

        public DigestFields digest() { return optional("digest", body(DigestFields::new)); }

        public boolean shorten() { return required("shorten", BOOLEAN); }

        public Map<String, String> titles() { return required("titles", mapOf(TEXT)); }

        public Map<String, String> descriptions() { return required("descriptions", mapOf(TEXT)); }

        public boolean retired() { return required("retired", BOOLEAN); }

        public List<CategoryOfClub> clubs() { return required("clubs", listOf(body(CategoryOfClub::new))); }

        /** The value of the field {@code type} of a send; {@code default} stands for each type without a row. */
        public String type() { return required("type", TEXT); }
    }

    /** What recipients see of a category, by language such as {@code de}. */
    public static final class CategoryTexts extends Body {
        CategoryTexts(Map<String, ?> members) { super(members); }

        public Map<String, String> titles() { return required("titles", mapOf(TEXT)); }

        public Map<String, String> descriptions() { return required("descriptions", mapOf(TEXT)); }
    }

    /** A category as it is from a time on. */
    public static final class CategoryValues extends Body {
        CategoryValues(Map<String, ?> members) { super(members); }

        /** The time from which it is valid; null: it is the one of the installation's file. */
        public String validFrom() { return optional("valid_from", TEXT); }

        /** The channels of a send that names none. */
        public List<String> channels() { return required("channels", listOf(TEXT)); }

        /** Whether an opt-out of the user does not apply. */
        public boolean mandatory() { return required("mandatory", BOOLEAN); }

        /** Whether its sends use the critical lane. */
        public boolean critical() { return required("critical", BOOLEAN); }

        /** The channels on which only users with a rule for the category get it. */
        public List<String> optIn() { return required("opt_in", listOf(TEXT)); }

        /** The frequency caps; null: those of the default category apply. */
        public List<CapFields> caps() { return optional("caps", listOf(body(CapFields::new))); }

        /** How its notifications are collected; null: each goes out by itself. */
        public DigestFields digest() { return optional("digest", body(DigestFields::new)); }

        /** Whether the body of a push that is larger than a platform accepts is shortened. */
        public boolean shorten() { return required("shorten", BOOLEAN); }

        /** The name that recipients see, by language. */
        public Map<String, String> titles() { return required("titles", mapOf(TEXT)); }

        /** A sentence for recipients about its content, by language. */
        public Map<String, String> descriptions() { return required("descriptions", mapOf(TEXT)); }

        /** Whether new sends over REST are refused. */
        public boolean retired() { return required("retired", BOOLEAN); }

        /** The caller's clubs for which the category differs. */
        public List<CategoryOfClub> clubs() { return required("clubs", listOf(body(CategoryOfClub::new))); }
    }

    /** The fields that change. */
    public static final class ChangeWebhookRequest extends Body {
        public ChangeWebhookRequest() { this(Map.of()); }

        ChangeWebhookRequest(Map<String, ?> members) { super(members); }

        public ChangeWebhookRequest url(String value) { set("url", value); return this; }

        public ChangeWebhookRequest eventTypes(List<String> value) { set("event_types", value); return this; }

        public ChangeWebhookRequest description(String value) { set("description", value); return this; }

        public ChangeWebhookRequest maxCount(long value) { set("max_count", value); return this; }

        public ChangeWebhookRequest maxBytes(long value) { set("max_bytes", value); return this; }

        public ChangeWebhookRequest maxWaitS(long value) { set("max_wait_s", value); return this; }

        public ChangeWebhookRequest ordered(boolean value) { set("ordered", value); return this; }

        public ChangeWebhookRequest maxConcurrency(long value) { set("max_concurrency", value); return this; }

        /** Null: no limit. */
        public ChangeWebhookRequest ratePerS(Long value) { set("rate_per_s", value); return this; }

        public ChangeWebhookRequest format(String value) { set("format", value); return this; }

        public ChangeWebhookRequest roleArn(String value) { set("role_arn", value); return this; }

        /** The previous one is used for 24 hours for requests that are refused. Null: none, at once. */
        public ChangeWebhookRequest authentication(AuthenticationFields value) { set("authentication", value); return this; }

        /** Null: no e-mail is sent. */
        public ChangeWebhookRequest contactUserId(Long value) { set("contact_user_id", value); return this; }

        public ChangeWebhookRequest enabled(boolean value) { set("enabled", value); return this; }
    }

    /** A channel without a condition. */
    public static final class ChannelAlone extends Body {
        public ChannelAlone() { this(Map.of()); }

        ChannelAlone(Map<String, ?> members) { super(members); }

        public ChannelAlone channel(String value) { set("channel", value); return this; }
    }

    /** A channel that is used only if the one before it was not. */
    public static final class ChannelCondition extends Body {
        public ChannelCondition() { this(Map.of()); }

        ChannelCondition(Map<String, ?> members) { super(members); }

        public ChannelCondition channel(String value) { set("channel", value); return this; }

        /** What became of the notification on the channel before it. */
        public ChannelCondition if_(String value) { set("if", value); return this; }

        /** How long it waits for the channel before it, such as 10m, 2h or 1d; at most 7d. */
        public ChannelCondition after(String value) { set("after", value); return this; }
    }

    /** Numbers of the send's chunks. */
    public static final class Chunks extends Body {
        Chunks(Map<String, ?> members) { super(members); }

        public Long expected() { return optional("expected", INTEGER); }

        public Long counted() { return optional("counted", INTEGER); }
    }

    /** How a category differs for the sends of one club. */
    public static final class ClubFields extends Body {
        public ClubFields() { this(Map.of()); }

        ClubFields(Map<String, ?> members) { super(members); }

        public ClubFields clubId(long value) { set("club_id", value); return this; }

        public ClubFields channels(List<String> value) { set("channels", value); return this; }

        public ClubFields optIn(List<String> value) { set("opt_in", value); return this; }

        public ClubFields caps(List<CapFields> value) { set("caps", value); return this; }

        /** Null: each notification goes out by itself; missing: as the category. */
        public ClubFields digest(DigestFields value) { set("digest", value); return this; }
    }

    /** The code of a text, so that a program can translate it. */
    public static final class CodedBody extends Body {
        CodedBody(Map<String, ?> members) { super(members); }

        /** Names the text. {@code x-texts} of {@code ProblemBody} has the codes; later versions may have further ones. */
        public String code() { return optional("code", TEXT); }

        /** The values in the text. */
        public Map<String, Object> parameters() { return optional("parameters", mapOf(ANY)); }

        /** The codes of those values in {@code parameters} that are texts themselves, by the name of the value. */
        public Map<String, CodedBody> texts() { return optional("texts", mapOf(body(CodedBody::new))); }
    }

    /** A channel that waits for another one. */
    public static final class ConditionOfChannel extends Body {
        ConditionOfChannel(Map<String, ?> members) { super(members); }

        public String channel() { return required("channel", TEXT); }

        public String waitsFor() { return required("waits_for", TEXT); }

        public String if_() { return required("if", TEXT); }

        public String after() { return required("after", TEXT); }
    }

    /** Whether all recipients are accounted for. */
    public static final class Conservation extends Body {
        Conservation(Map<String, ?> members) { super(members); }

        /** Notifications with a final status. */
        public long terminal() { return required("terminal", INTEGER); }

        public long inFlight() { return required("in_flight", INTEGER); }

        /**
         * False while the metrics job has counted the end of a notification before its beginning. {@code requested}
         * then includes it already.
         */
        public boolean ok() { return required("ok", BOOLEAN); }
    }

    /** The content of a send, in the form of a request to POST /v1/previews. */
    public static final class ContentOfSend extends Body {
        ContentOfSend(Map<String, ?> members) { super(members); }

        public String type() { return required("type", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public List<String> channels() { return required("channels", listOf(TEXT)); }

        public String template() { return optional("template", TEXT); }

        public String locale() { return optional("locale", TEXT); }

        /** The variables that all recipients share. */
        public Map<String, String> data() { return required("data", mapOf(TEXT)); }

        /** The options of its pushes. Null: it has none, or they are hidden with the values. */
        public Map<String, Object> push() { return optional("push", mapOf(ANY)); }
    }

    /** The control of a send. */
    public static final class ControlOfSend extends Body {
        ControlOfSend(Map<String, ?> members) { super(members); }

        /** The beginning of the present pause. */
        public String pausedAt() { return optional("paused_at", TEXT); }

        /** The end of the last pause. */
        public String resumedAt() { return optional("resumed_at", TEXT); }

        /** The time to which the send was moved. */
        public String sendAt() { return optional("send_at", TEXT); }
    }

    /** The number of users in an audience. */
    public static final class CountBody extends Body {
        CountBody(Map<String, ?> members) { super(members); }

        public long users() { return required("users", INTEGER); }

        /** By channel: users with an address, or with an active device. Opt-outs and suppressions are not considered. */
        public Map<String, Long> channels() { return required("channels", mapOf(INTEGER)); }

        /** The users of the club that were compared with the audience; of one with {@code follows}, the followers. */
        public long examined() { return required("examined", INTEGER); }

        /** Whether all users of the club were examined in the time of a request. */
        public boolean complete() { return required("complete", BOOLEAN); }
    }

    /** The body of a request to POST /v1/audiences/count. */
    public static final class CountRequest extends Body {
        public CountRequest() { this(Map.of()); }

        CountRequest(Map<String, ?> members) { super(members); }

        public CountRequest clubId(long value) { set("club_id", value); return this; }

        /** The conditions of docs/audiences.md, or a saved audience. */
        public CountRequest audience(Map<String, Object> value) { set("audience", value); return this; }

        /** The channels to count; by default all. */
        public CountRequest channels(List<String> value) { set("channels", value); return this; }
    }

    /** A bucket with its count. Only the dimensions of the query are present. */
    public static final class CountedRow extends Body {
        CountedRow(Map<String, ?> members) { super(members); }

        public String bucket() { return optional("bucket", TEXT); }

        public Long clubId() { return optional("club_id", INTEGER); }

        public String type() { return optional("type", TEXT); }

        public String channel() { return optional("channel", TEXT); }

        public String measure() { return optional("measure", TEXT); }

        public String reason() { return optional("reason", TEXT); }

        public Long countTotal() { return optional("count_total", INTEGER); }
    }

    /** The body of a request to create an API key. */
    public static final class CreateKeyRequest extends Body {
        public CreateKeyRequest() { this(Map.of()); }

        CreateKeyRequest(Map<String, ?> members) { super(members); }

        /** For people: the system that uses the key. 1 to 100 characters. */
        public CreateKeyRequest name(String value) { set("name", value); return this; }

        /** The clubs of the key; null: every club. */
        public CreateKeyRequest clubs(List<Long> value) { set("clubs", value); return this; }

        /** Without any, read. */
        public CreateKeyRequest scopes(List<String> value) { set("scopes", value); return this; }

        public CreateKeyRequest mode(String value) { set("mode", value); return this; }

        /** The end of the key, in RFC 3339 with an offset. */
        public CreateKeyRequest expiresAt(String value) { set("expires_at", value); return this; }

        public CreateKeyRequest requestsAMinute(Long value) { set("requests_a_minute", value); return this; }

        public CreateKeyRequest recipientsADay(Long value) { set("recipients_a_day", value); return this; }
    }

    /** A new endpoint. */
    public static final class CreateWebhookRequest extends Body {
        public CreateWebhookRequest() { this(Map.of()); }

        CreateWebhookRequest(Map<String, ?> members) { super(members); }

        public CreateWebhookRequest clubId(long value) { set("club_id", value); return this; }

        /** An address with https in the Internet, or the ARN of an SQS queue or of an EventBridge event bus. */
        public CreateWebhookRequest url(String value) { set("url", value); return this; }

        /** Empty or missing: every type. */
        public CreateWebhookRequest eventTypes(List<String> value) { set("event_types", value); return this; }

        public CreateWebhookRequest description(String value) { set("description", value); return this; }

        /** The most messages with events of a request: 1 (the default) to 1,000. */
        public CreateWebhookRequest maxCount(long value) { set("max_count", value); return this; }

        /** The most bytes of a request with several messages: 1,000 to 1,000,000, by default 256,000. */
        public CreateWebhookRequest maxBytes(long value) { set("max_bytes", value); return this; }

        /** The most seconds that a message waits for others of its request: 1 (the default), or 60 to 3,600. */
        public CreateWebhookRequest maxWaitS(long value) { set("max_wait_s", value); return this; }

        /**
         * Whether a message waits until those before it with the same {@code key} are accepted or given up; by default
         * not.
         */
        public CreateWebhookRequest ordered(boolean value) { set("ordered", value); return this; }

        /** The most concurrent requests with events: 1 to 32, by default 8. */
        public CreateWebhookRequest maxConcurrency(long value) { set("max_concurrency", value); return this; }

        /** The most messages with events a second: 1 to 10,000; null or missing: no limit. */
        public CreateWebhookRequest ratePerS(Long value) { set("rate_per_s", value); return this; }

        /** The form of events of systems: {@code masscomm} (the default), or CloudEvents 1.0 in the structured form. */
        public CreateWebhookRequest format(String value) { set("format", value); return this; }

        /** For an ARN: the role in its account that masscomm assumes; its name begins with {@code masscomm-}. */
        public CreateWebhookRequest roleArn(String value) { set("role_arn", value); return this; }

        /** Null or missing: requests have their signature only. */
        public CreateWebhookRequest authentication(AuthenticationFields value) { set("authentication", value); return this; }

        /** The user of the tenant who gets an e-mail when masscomm disables it; null or missing: no e-mail is sent. */
        public CreateWebhookRequest contactUserId(Long value) { set("contact_user_id", value); return this; }
    }

    /** An earlier operation on a dead letter. */
    public static final class DeadLetterAction extends Body {
        DeadLetterAction(Map<String, ?> members) { super(members); }

        public String status() { return required("status", TEXT); }

        public String at() { return required("at", TEXT); }

        public String by() { return required("by", TEXT); }

        /** The topic of a replay, or the reason of a discard. */
        public String detail() { return required("detail", TEXT); }
    }

    /** A dead letter with its payload. */
    public static final class DeadLetterBody extends Body {
        DeadLetterBody(Map<String, ?> members) { super(members); }

        public DeadLetterRow letter() { return required("letter", body(DeadLetterRow::new)); }

        public List<DeadLetterAction> history() { return required("history", listOf(body(DeadLetterAction::new))); }

        /** Whether the letter is shown without its values, to a caller without the scope users:read. */
        public boolean outlined() { return required("outlined", BOOLEAN); }

        /** null: the record has none, or is outlined. */
        public String key() { return optional("key", TEXT); }

        public List<DeadLetterHeader> headers() { return required("headers", listOf(body(DeadLetterHeader::new))); }

        /**
         * The decoded record as JSON text, shortened; null if it cannot be decoded. Outlined, it has types such as
         * {@code integer} in place of values, and {@code *} in place of the keys of a map.
         */
        public String payload() { return optional("payload", TEXT); }

        /** Why the record cannot be decoded; null: it can, or is outlined. */
        public String payloadError() { return optional("payload_error", TEXT); }

        /** The first bytes of a record that cannot be decoded; null if it is outlined. */
        public String payloadBase64() { return optional("payload_base64", TEXT); }

        public boolean payloadTruncated() { return required("payload_truncated", BOOLEAN); }
    }

    /** The members of DeadLetterHeader. */
    public static final class DeadLetterHeader extends Body {
        DeadLetterHeader(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        /** Empty if the letter is outlined. */
        public String value() { return required("value", TEXT); }
    }

    /** A record that could not be processed. */
    public static final class DeadLetterRow extends Body {
        DeadLetterRow(Map<String, ?> members) { super(members); }

        /** The position on the dead-letter topic, partition&#64;offset. */
        public String position() { return required("position", TEXT); }

        /** When the record was dead-lettered. */
        public String at() { return required("at", TEXT); }

        /** null: the record has no readable club. */
        public Long clubId() { return optional("club_id", INTEGER); }

        /** The source topic; partition and offset are the record's position in it. */
        public String topic() { return required("topic", TEXT); }

        public String partition() { return required("partition", TEXT); }

        public String offset() { return required("offset", TEXT); }

        public String reason() { return required("reason", TEXT); }

        /** Empty without the scope users:read: an error may quote values of the record. */
        public String error() { return required("error", TEXT); }

        public String function() { return required("function", TEXT); }

        /** The position of the dead letter of which the record is a replay, or empty. */
        public String replayedFrom() { return required("replayed_from", TEXT); }

        /** Bytes of the record. */
        public long size() { return required("size", INTEGER); }

        /** open, replayed or discarded. */
        public String status() { return required("status", TEXT); }
    }

    /** Dead letters, the latest first. */
    public static final class DeadLettersBody extends Body {
        DeadLettersBody(Map<String, ?> members) { super(members); }

        public List<DeadLetterRow> rows() { return required("rows", listOf(body(DeadLetterRow::new))); }

        /** Whether there are earlier letters. A page may have fewer rows than its limit nevertheless. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The parameters of {@link Client#deadLetters}. */
    public static final class DeadLettersFilters extends Body {
        public DeadLettersFilters() { this(Map.of()); }

        DeadLettersFilters(Map<String, ?> members) { super(members); }

        /** a whole number of 64 bits. */
        public DeadLettersFilters clubId(long value) { set("club_id", value); return this; }

        /** The source topic. */
        public DeadLettersFilters topic(String value) { set("topic", value); return this; }

        /** Why the record was dead-lettered. */
        public DeadLettersFilters reason(String value) { set("reason", value); return this; }

        /** The function that dead-lettered it. */
        public DeadLettersFilters function(String value) { set("function", value); return this; }

        /** one of open, replayed, discarded. */
        public DeadLettersFilters status(String value) { set("status", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public DeadLettersFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public DeadLettersFilters end(String value) { set("end", value); return this; }

        /** The maximum number of rows. */
        public DeadLettersFilters limit(long value) { set("limit", value); return this; }
    }

    /** The rule and the user settings that determined a status, as far as they are known. */
    public static final class DecidedBy extends Body {
        DecidedBy(Map<String, ?> members) { super(members); }

        /** The source of the decision, such as user, default or provider. */
        public String layer() { return optional("layer", TEXT); }

        /** The setting that determined it, or the provider's code. */
        public String rule() { return optional("rule", TEXT); }

        /** The category that a rule of the user settings is about; null: every category. */
        public String category() { return optional("category", TEXT); }

        /** The channel that a rule of the user settings is about; null: every channel. */
        public String channel() { return optional("channel", TEXT); }

        /** The version of these user settings in the directory: a position in the monolith's log. */
        public Long settingsVersion() { return optional("settings_version", INTEGER); }

        /** The time of the newest change in these user settings. */
        public String changedAt() { return optional("changed_at", TEXT); }
    }

    /** A deleted audience. */
    public static final class DeletedAudienceBody extends Body {
        DeletedAudienceBody(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** A deleted type. */
    public static final class DeletedEventTypeBody extends Body {
        DeletedEventTypeBody(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** A deleted schedule. */
    public static final class DeletedScheduleBody extends Body {
        DeletedScheduleBody(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** A deleted source. */
    public static final class DeletedSourceBody extends Body {
        DeletedSourceBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** A deleted subscription. */
    public static final class DeletedSubscriptionBody extends Body {
        DeletedSubscriptionBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** A deleted endpoint. */
    public static final class DeletedWebhookBody extends Body {
        DeletedWebhookBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** Deliveries, the latest first. */
    public static final class DeliveriesBody extends Body {
        DeliveriesBody(Map<String, ?> members) { super(members); }

        public List<DeliveryBody> rows() { return required("rows", listOf(body(DeliveryBody::new))); }

        /** Whether the list continues. A page may have fewer rows than its limit: follow next_cursor. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The delivery of one event to one endpoint. */
    public static final class DeliveryBody extends Body {
        DeliveryBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        /** The value of the header webhook-id, in each request with this message only. */
        public String eventId() { return required("event_id", TEXT); }

        public String eventType() { return required("event_type", TEXT); }

        /** The time of the event, or of its first attempt. */
        public String at() { return required("at", TEXT); }

        public String status() { return required("status", TEXT); }

        public long attempts() { return required("attempts", INTEGER); }

        /** Null: unknown. */
        public String nextAttemptAt() { return optional("next_attempt_at", TEXT); }

        /** The latest first. */
        public List<AttemptBody> lastAttempts() { return required("last_attempts", listOf(body(AttemptBody::new))); }
    }

    /** The values of DeliveryStatus. A later version of the API may have further ones. */
    public static final class DeliveryStatus {
        public static final String PENDING = "pending";
        public static final String SUCCEEDED = "succeeded";
        public static final String FAILED = "failed";

        private DeliveryStatus() {}
    }

    /** The parameters of {@link Client#deviceCounts}. */
    public static final class DeviceCountsFilters extends Body {
        public DeviceCountsFilters() { this(Map.of()); }

        DeviceCountsFilters(Map<String, ?> members) { super(members); }

        /** a whole number of 64 bits. */
        public DeviceCountsFilters clubId(long... values) { set("club_id", values); return this; }
    }

    /** Whether push messages reach a device. A later version of the API may have further ones. */
    public static final class DeviceStatus {
        public static final String ACTIVE = "active";
        public static final String UNREGISTERED = "unregistered";
        public static final String DISABLED = "disabled";

        private DeviceStatus() {}
    }

    /** The parameters of {@link Client#devices}. */
    public static final class DevicesFilters extends Body {
        public DevicesFilters() { this(Map.of()); }

        DevicesFilters(Map<String, ?> members) { super(members); }

        /** a whole number of 64 bits. */
        public DevicesFilters clubId(long... values) { set("club_id", values); return this; }

        /** one of takes_nothing, invalid_token, invalid_row, token_moved, inactive, deleted. */
        public DevicesFilters reason(String value) { set("reason", value); return this; }

        /** The maximum number of rows. */
        public DevicesFilters limit(long value) { set("limit", value); return this; }
    }

    /** How the notifications of a category to one user on one channel are collected in one message. */
    public static final class DigestFields extends Body {
        public DigestFields() { this(Map.of()); }

        DigestFields(Map<String, ?> members) { super(members); }

        /** The template of the message. It sees {@code digest.count}, {@code digest.first} and {@code digest.list}. */
        public String template() { return required("template", TEXT); }

        /** The template of the message. It sees {@code digest.count}, {@code digest.first} and {@code digest.list}. */
        public DigestFields template(String value) { set("template", value); return this; }

        /**
         * How long they are collected after the first one, such as {@code 30m}, {@code 24h} or {@code 7d}; at most 7
         * days.
         */
        public String window() { return optional("window", TEXT); }

        /**
         * How long they are collected after the first one, such as {@code 30m}, {@code 24h} or {@code 7d}; at most 7
         * days.
         */
        public DigestFields window(String value) { set("window", value); return this; }

        /** Instead of a window, the time on the user's clock at which the message goes out, such as {@code 08:00}. */
        public String at() { return optional("at", TEXT); }

        /** Instead of a window, the time on the user's clock at which the message goes out, such as {@code 08:00}. */
        public DigestFields at(String value) { set("at", value); return this; }

        /** The variable whose value separates digests, such as {@code post_id}. */
        public String key() { return optional("key", TEXT); }

        /** The variable whose value separates digests, such as {@code post_id}. */
        public DigestFields key(String value) { set("key", value); return this; }

        /** The number of notifications whose variables the template sees, from 1 to 100; by default 10. */
        public Long list() { return optional("list", INTEGER); }

        /** The number of notifications whose variables the template sees, from 1 to 100; by default 10. */
        public DigestFields list(long value) { set("list", value); return this; }
    }

    /** How the notifications of a send are collected, each in the digest of its user. */
    public static final class DigestRequest extends Body {
        public DigestRequest() { this(Map.of()); }

        DigestRequest(Map<String, ?> members) { super(members); }

        /** The template of the message of the digest. */
        public DigestRequest template(String value) { set("template", value); return this; }

        /** How long they are collected, at most 7 days. */
        public DigestRequest window(String value) { set("window", value); return this; }

        /** Instead of a window, a time on the user's clock. */
        public DigestRequest at(String value) { set("at", value); return this; }

        /** The variable whose value separates digests. */
        public DigestRequest key(String value) { set("key", value); return this; }

        /** The number of notifications that the template sees. */
        public DigestRequest list(long value) { set("list", value); return this; }
    }

    /**
     * A dimension by which counts are grouped, in addition to the bucket. A later version of the API may have
     * further ones.
     */
    public static final class Dimension {
        public static final String CLUB_ID = "club_id";
        public static final String TYPE = "type";
        public static final String CHANNEL = "channel";
        public static final String MEASURE = "measure";
        public static final String REASON = "reason";

        private Dimension() {}
    }

    /** The age of a generation of the directory. */
    public static final class DirectoryRow extends Body {
        DirectoryRow(Map<String, ?> members) { super(members); }

        public String generation() { return required("generation", TEXT); }

        /** The time of the newest heartbeat of the monolith's database that cdc_consumer has processed. */
        public String heartbeatAt() { return optional("heartbeat_at", TEXT); }

        /** How old the directory is. null: no heartbeat is known. */
        public Double stalenessS() { return optional("staleness_s", NUMBER); }
    }

    /** A number of disabled devices. */
    public static final class DisabledCount extends Body {
        DisabledCount(Map<String, ?> members) { super(members); }

        public Long clubId() { return optional("club_id", INTEGER); }

        public String reason() { return required("reason", TEXT); }

        public long devices() { return required("devices", INTEGER); }
    }

    /** The number of disabled devices by club and reason, the largest first. */
    public static final class DisabledCountsBody extends Body {
        DisabledCountsBody(Map<String, ?> members) { super(members); }

        public List<DisabledCount> rows() { return required("rows", listOf(body(DisabledCount::new))); }

        public long examined() { return required("examined", INTEGER); }

        /** Whether all disabled devices were examined. false: only those that were disabled last. */
        public boolean complete() { return required("complete", BOOLEAN); }
    }

    /** A device to which nothing is pushed. Its token and its endpoint are not shown. */
    public static final class DisabledDeviceRow extends Body {
        DisabledDeviceRow(Map<String, ?> members) { super(members); }

        public long deviceId() { return required("device_id", INTEGER); }

        /** null: the monolith's row is gone. */
        public Long userId() { return optional("user_id", INTEGER); }

        public Long clubId() { return optional("club_id", INTEGER); }

        public String platform() { return optional("platform", TEXT); }

        public String reason() { return required("reason", TEXT); }

        public String since() { return required("since", TEXT); }

        /**
         * Whether the device can be enabled by this API. Any other device is enabled by a change of the monolith's
         * row.
         */
        public boolean canBeEnabled() { return required("can_be_enabled", BOOLEAN); }
    }

    /** Disabled devices, those disabled last first. */
    public static final class DisabledDevicesBody extends Body {
        DisabledDevicesBody(Map<String, ?> members) { super(members); }

        public List<DisabledDeviceRow> rows() { return required("rows", listOf(body(DisabledDeviceRow::new))); }

        /** Whether the list continues. A page may have fewer rows than its limit: follow next_cursor. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The body of a request to discard a dead letter. */
    public static final class DiscardRequest extends Body {
        public DiscardRequest() { this(Map.of()); }

        DiscardRequest(Map<String, ?> members) { super(members); }

        /** Stored with the letter and in the audit log: 1 to 500 characters. */
        public DiscardRequest reason(String value) { set("reason", value); return this; }
    }

    /** A discarded dead letter. */
    public static final class DiscardedBody extends Body {
        DiscardedBody(Map<String, ?> members) { super(members); }

        public String position() { return required("position", TEXT); }

        public String status() { return required("status", TEXT); }

        public String reason() { return required("reason", TEXT); }
    }

    /** A template that is not saved yet. It is rendered in place of the saved ones. */
    public static final class Draft extends Body {
        public Draft() { this(Map.of()); }

        Draft(Map<String, ?> members) { super(members); }

        public Draft title(String value) { set("title", value); return this; }

        public Draft body(String value) { set("body", value); return this; }

        public Draft html(String value) { set("html", value); return this; }

        public Draft url(String value) { set("url", value); return this; }
    }

    /** What would become of a send. Nothing was sent. */
    public static final class DryRunBody extends Body {
        DryRunBody(Map<String, ?> members) { super(members); }

        public boolean dryRun() { return required("dry_run", BOOLEAN); }

        /** Distinct notifications: a user on a channel. */
        public long requested() { return required("requested", INTEGER); }

        /** Distinct users who would get at least one message, now or later. */
        public long reached() { return required("reached", INTEGER); }

        /** Repeated users; they are not counted in {@code requested}. */
        public long duplicates() { return required("duplicates", INTEGER); }

        /** Whether the counts are estimated from a sample of the recipients. */
        public boolean estimated() { return required("estimated", BOOLEAN); }

        /** How many minutes the send takes at its pace; null: it has none. */
        public Long minutes() { return optional("minutes", INTEGER); }

        /** The time of the counts. Users, devices and preferences may be others when the send is due. */
        public String countedAt() { return required("counted_at", TEXT); }

        public List<DryRunChannel> channels() { return required("channels", listOf(body(DryRunChannel::new))); }

        /** null: no SMS goes out or is refused for its country. */
        public DryRunSms sms() { return optional("sms", body(DryRunSms::new)); }

        /** One message for each channel and locale, at most five a channel; empty without the scope users:read. */
        public List<DryRunSample> samples() { return required("samples", listOf(body(DryRunSample::new))); }

        public List<FieldErrorBody> warnings() { return required("warnings", listOf(body(FieldErrorBody::new))); }
    }

    /** What becomes of the notifications on a channel. Each is counted in one of the numbers. */
    public static final class DryRunChannel extends Body {
        DryRunChannel(Map<String, ?> members) { super(members); }

        public String channel() { return required("channel", TEXT); }

        public long requested() { return required("requested", INTEGER); }

        /** Notifications that a provider would get now. */
        public long deliverable() { return required("deliverable", INTEGER); }

        /** Notifications that a provider would get after the user's quiet hours. */
        public long held() { return required("held", INTEGER); }

        /** Notifications that a provider would get at the send's time. */
        public long scheduled() { return required("scheduled", INTEGER); }

        /** Notifications that would wait in digests of their users. */
        public long collected() { return required("collected", INTEGER); }

        /** Notifications of a fallback that a provider would get if those on the channel before it are not sent. */
        public long ifNeeded() { return required("if_needed", INTEGER); }

        public long suppressed() { return required("suppressed", INTEGER); }

        public long failed() { return required("failed", INTEGER); }

        public long expired() { return required("expired", INTEGER); }

        /** By status and reason, without those that are deliverable as usual. */
        public List<DryRunReason> reasons() { return required("reasons", listOf(body(DryRunReason::new))); }
    }

    /** The SMS to one country. */
    public static final class DryRunCountry extends Body {
        DryRunCountry(Map<String, ?> members) { super(members); }

        /** ISO 3166, two letters; empty: a number of no country. */
        public String country() { return required("country", TEXT); }

        public long messages() { return required("messages", INTEGER); }

        public long segments() { return required("segments", INTEGER); }

        public double usd() { return required("usd", NUMBER); }
    }

    /** Notifications with the same end. */
    public static final class DryRunReason extends Body {
        DryRunReason(Map<String, ?> members) { super(members); }

        public String status() { return required("status", TEXT); }

        public String reason() { return optional("reason", TEXT); }

        public long countTotal() { return required("count_total", INTEGER); }

        /** The time at which the first of these notifications is released; null: they do not wait. */
        public String firstAt() { return optional("first_at", TEXT); }

        public String lastAt() { return optional("last_at", TEXT); }
    }

    /** The SMS that the tenant does not send to a country. */
    public static final class DryRunRefusedCountry extends Body {
        DryRunRefusedCountry(Map<String, ?> members) { super(members); }

        public String country() { return required("country", TEXT); }

        public long messages() { return required("messages", INTEGER); }
    }

    /** The message of a recipient. */
    public static final class DryRunSample extends Body {
        DryRunSample(Map<String, ?> members) { super(members); }

        public String channel() { return required("channel", TEXT); }

        public String locale() { return required("locale", TEXT); }

        public long userId() { return required("user_id", INTEGER); }

        /** The texts: title, body and url of a push; subject, text and html of an e-mail. */
        public Map<String, String> fields() { return required("fields", mapOf(TEXT)); }
    }

    /** The SMS that go out, now or later, with the segments and the prices by which they are billed. */
    public static final class DryRunSms extends Body {
        DryRunSms(Map<String, ?> members) { super(members); }

        public long segments() { return required("segments", INTEGER); }

        public double usd() { return required("usd", NUMBER); }

        /** The day of the prices. */
        public String pricesAsOf() { return required("prices_as_of", TEXT); }

        public List<DryRunCountry> countries() { return required("countries", listOf(body(DryRunCountry::new))); }

        public List<DryRunRefusedCountry> refused() { return required("refused", listOf(body(DryRunRefusedCountry::new))); }
    }

    /** Whether notifications of a category reach the user on a channel. */
    public static final class EffectivePreference extends Body {
        EffectivePreference(Map<String, ?> members) { super(members); }

        public String category() { return required("category", TEXT); }

        public String channel() { return required("channel", TEXT); }

        public boolean wanted() { return required("wanted", BOOLEAN); }

        /**
         * The source of the decision, as in outcomes: tenant_user (the user's settings for the tenant), user (their
         * settings), tenant and global (rules of the tenant, and of every tenant) or default (the category).
         */
        public String layer() { return required("layer", TEXT); }

        /** The rule that applies, as in outcomes; null: there is none. */
        public String rule() { return optional("rule", TEXT); }

        /** The row with the rule; null: the category decides. */
        public RowBody row() { return optional("row", body(RowBody::new)); }
    }

    /** A device that the device registrar will try again. */
    public static final class EnabledDeviceBody extends Body {
        EnabledDeviceBody(Map<String, ?> members) { super(members); }

        public long deviceId() { return required("device_id", INTEGER); }

        public String status() { return required("status", TEXT); }
    }

    /** An event that occurred. */
    public static final class EventFields extends Body {
        public EventFields() { this(Map.of()); }

        EventFields(Map<String, ?> members) { super(members); }

        /** The id of the event in its club. A repeated event of the last 24 hours is not produced again. */
        public EventFields eventId(String value) { set("event_id", value); return this; }

        /** The event type, such as match.finished. */
        public EventFields type(String value) { set("type", value); return this; }

        public EventFields clubId(long value) { set("club_id", value); return this; }

        /** At most 64 kB. */
        public EventFields data(Map<String, Object> value) { set("data", value); return this; }

        /** The path of the unit, at most 5 levels, such as 100/7. */
        public EventFields unit(String value) { set("unit", value); return this; }

        /** What the event is about, such as the id of an order. */
        public EventFields key(String value) { set("key", value); return this; }

        /** The time of the event; by default now. */
        public EventFields occurredAt(String value) { set("occurred_at", value); return this; }
    }

    /** The type of an event. A later version of the API may have further ones. */
    public static final class EventType {
        public static final String SEND_ACCEPTED = "send.accepted";
        public static final String SEND_EXPANDED = "send.expanded";
        public static final String SEND_PAUSED = "send.paused";
        public static final String SEND_RESUMED = "send.resumed";
        public static final String SEND_COMPLETED = "send.completed";
        public static final String SEND_CANCELLED = "send.cancelled";
        public static final String SEND_FAILED = "send.failed";
        public static final String WEBHOOK_TEST = "webhook.test";
        public static final String WEBHOOK_DISABLED = "webhook.disabled";

        private EventType() {}
    }

    /** A type of events. */
    public static final class EventTypeBody extends Body {
        EventTypeBody(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String description() { return required("description", TEXT); }

        public Map<String, Object> example() { return required("example", mapOf(ANY)); }

        public Map<String, Object> schema() { return optional("schema", mapOf(ANY)); }

        public String userPath() { return optional("user_path", TEXT); }
    }

    /** The body of a request to PUT /v1/event-types/{name}. */
    public static final class EventTypeFields extends Body {
        public EventTypeFields() { this(Map.of()); }

        EventTypeFields(Map<String, ?> members) { super(members); }

        public EventTypeFields description(String value) { set("description", value); return this; }

        /** The data of an event of this type. */
        public EventTypeFields example(Map<String, Object> value) { set("example", value); return this; }

        /** A JSON Schema for data, without references to other documents; null: data is any JSON object. */
        public EventTypeFields schema(Map<String, Object> value) { set("schema", value); return this; }

        /** The path in data of the id of the user whom the event concerns, such as player.id. */
        public EventTypeFields userPath(String value) { set("user_path", value); return this; }
    }

    /** All types of events, in the order of their names. */
    public static final class EventTypesBody extends Body {
        EventTypesBody(Map<String, ?> members) { super(members); }

        public List<EventTypeBody> rows() { return required("rows", listOf(body(EventTypeBody::new))); }
    }

    /** The body of a request to POST /v1/events. */
    public static final class EventsRequest extends Body {
        public EventsRequest() { this(Map.of()); }

        EventsRequest(Map<String, ?> members) { super(members); }

        public EventsRequest events(List<EventFields> value) { set("events", value); return this; }
    }

    /** The expansion of an audience. */
    public static final class ExpansionOfSend extends Body {
        ExpansionOfSend(Map<String, ?> members) { super(members); }

        public String status() { return required("status", TEXT); }

        /** The users of the audience; null until they are all found. */
        public Long users() { return optional("users", INTEGER); }

        /** Their notifications. */
        public Long requested() { return optional("requested", INTEGER); }

        public String error() { return optional("error", TEXT); }
    }

    /** The members of FieldErrorBody. */
    public static final class FieldErrorBody extends Body {
        FieldErrorBody(Map<String, ?> members) { super(members); }

        /** Names the text. {@code x-texts} of {@code ProblemBody} has the codes; later versions may have further ones. */
        public String code() { return optional("code", TEXT); }

        /** The values in the text. */
        public Map<String, Object> parameters() { return optional("parameters", mapOf(ANY)); }

        /** The codes of those values in {@code parameters} that are texts themselves, by the name of the value. */
        public Map<String, CodedBody> texts() { return optional("texts", mapOf(body(CodedBody::new))); }

        /** The name as in the request, such as {@code to_users[3]}. */
        public String field() { return required("field", TEXT); }

        public String message() { return required("message", TEXT); }
    }

    /**
     * The length of the time buckets in which metrics are counted, in ascending order. Buckets are in UTC, and
     * begin at a multiple of their length since the epoch. A later version of the API may have further ones.
     */
    public static final class Grain {
        public static final String MINUTE = "minute";
        public static final String HOUR = "hour";
        public static final String DAY = "day";

        private Grain() {}
    }

    /** The health of the installation. */
    public static final class HealthBody extends Body {
        HealthBody(Map<String, ?> members) { super(members); }

        /** The largest lag first. */
        public List<LagRow> lag() { return required("lag", listOf(body(LagRow::new))); }

        public long lagTotal() { return required("lag_total", INTEGER); }

        public List<DirectoryRow> directory() { return required("directory", listOf(body(DirectoryRow::new))); }

        /** Dead letters that were neither replayed nor discarded. */
        public long openDeadLetters() { return required("open_dead_letters", INTEGER); }

        /**
         * The categories whose e-mails offer no way to unsubscribe, because the installation has neither the address
         * of the route nor a mailbox.
         */
        public List<String> categoriesWithoutUnsubscribe() { return required("categories_without_unsubscribe", listOf(TEXT)); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** An API key without its secret text. */
    public static final class KeyRow extends Body {
        KeyRow(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String name() { return required("name", TEXT); }

        /** null: every club. */
        public List<Long> clubs() { return optional("clubs", listOf(INTEGER)); }

        public List<String> scopes() { return required("scopes", listOf(TEXT)); }

        /** live, or test: the key sends to simulator recipients only. */
        public String mode() { return required("mode", TEXT); }

        public String createdAt() { return required("created_at", TEXT); }

        /** null: without an end. */
        public String expiresAt() { return optional("expires_at", TEXT); }

        /** At most a minute late. */
        public String lastUsedAt() { return optional("last_used_at", TEXT); }

        public Long requestsAMinute() { return optional("requests_a_minute", INTEGER); }

        public Long recipientsADay() { return optional("recipients_a_day", INTEGER); }
    }

    /** API keys, the latest first. */
    public static final class KeysBody extends Body {
        KeysBody(Map<String, ?> members) { super(members); }

        public List<KeyRow> rows() { return required("rows", listOf(body(KeyRow::new))); }

        /** Whether there are more keys. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The records of a topic that a function has not processed yet. */
    public static final class LagRow extends Body {
        LagRow(Map<String, ?> members) { super(members); }

        public String function() { return required("function", TEXT); }

        public String topic() { return required("topic", TEXT); }

        public long records() { return required("records", INTEGER); }
    }

    /** Latencies by bucket and dimensions. */
    public static final class LatencyBody extends Body {
        LatencyBody(Map<String, ?> members) { super(members); }

        public String granularity() { return required("granularity", TEXT); }

        public String start() { return required("start", TEXT); }

        public String end() { return required("end", TEXT); }

        public List<String> dimensions() { return required("dimensions", listOf(TEXT)); }

        public List<LatencyBodyRow> rows() { return required("rows", listOf(body(LatencyBodyRow::new))); }

        /** The latencies of all buckets together. */
        public List<LatencyWholeRow> whole() { return required("whole", listOf(body(LatencyWholeRow::new))); }

        /** The largest relative error of a latency. */
        public double error() { return required("error", NUMBER); }

        /** The latencies include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        /** The time between the end of a bucket and its completeness. */
        public long graceMs() { return required("grace_ms", INTEGER); }

        /** Whether the watermark is later than the end of the last bucket by the grace. */
        public boolean complete() { return required("complete", BOOLEAN); }

        /** Latencies of earlier buckets are not stored; null: all are. */
        public String keptSince() { return optional("kept_since", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** The latencies of a bucket in milliseconds. Only the dimensions of the query are present. */
    public static final class LatencyBodyRow extends Body {
        LatencyBodyRow(Map<String, ?> members) { super(members); }

        public String type() { return optional("type", TEXT); }

        public String channel() { return optional("channel", TEXT); }

        public String measure() { return optional("measure", TEXT); }

        public Long countTotal() { return optional("count_total", INTEGER); }

        public Double p50Ms() { return optional("p50_ms", NUMBER); }

        public Double p95Ms() { return optional("p95_ms", NUMBER); }

        public Double p99Ms() { return optional("p99_ms", NUMBER); }

        public String bucket() { return optional("bucket", TEXT); }
    }

    /** The parameters of {@link Client#latency}. */
    public static final class LatencyFilters extends Body {
        public LatencyFilters() { this(Map.of()); }

        LatencyFilters(Map<String, ?> members) { super(members); }

        /** one of minute, hour, day. */
        public LatencyFilters granularity(String value) { set("granularity", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public LatencyFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public LatencyFilters end(String value) { set("end", value); return this; }

        /** 1 to 200 characters, no NUL. */
        public LatencyFilters type(String... values) { set("type", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public LatencyFilters channel(String... values) { set("channel", values); return this; }

        /** one of sent, delivered. */
        public LatencyFilters measure(String... values) { set("measure", values); return this; }

        /** any of type, channel, measure, several times or with commas between them. */
        public LatencyFilters dimensions(String... values) { set("dimensions", values); return this; }
    }

    /** Latencies in milliseconds. Only the dimensions of the query are present. */
    public static final class LatencyWholeRow extends Body {
        LatencyWholeRow(Map<String, ?> members) { super(members); }

        public String type() { return optional("type", TEXT); }

        public String channel() { return optional("channel", TEXT); }

        public String measure() { return optional("measure", TEXT); }

        /** The number of notifications whose latency is known. */
        public Long countTotal() { return optional("count_total", INTEGER); }

        /** Half of the notifications took at most this long. */
        public Double p50Ms() { return optional("p50_ms", NUMBER); }

        public Double p95Ms() { return optional("p95_ms", NUMBER); }

        public Double p99Ms() { return optional("p99_ms", NUMBER); }
    }

    /** The paths of a resource. */
    public static final class Links extends Body {
        Links(Map<String, ?> members) { super(members); }

        public String self() { return required("self", TEXT); }
    }

    /** A send in the list, with numbers of notifications on all channels. */
    public static final class ListedSend extends Body {
        ListedSend(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String type() { return required("type", TEXT); }

        /** What made the send: a request, or a digest, whose message it is. */
        public String origin() { return required("origin", TEXT); }

        /** The requester's own id of the send, while the send is registered. */
        public String reference() { return optional("reference", TEXT); }

        public String requestedAt() { return required("requested_at", TEXT); }

        public String status() { return required("status", TEXT); }

        /** Null while the users of an audience are sought, and if only counts know it and do not answer. */
        public Long requested() { return optional("requested", INTEGER); }

        /** Notifications that a provider has accepted. */
        public Long published() { return optional("published", INTEGER); }

        /** Notifications that are part of digests. */
        public Long digested() { return optional("digested", INTEGER); }

        public Long suppressed() { return optional("suppressed", INTEGER); }

        public Long failed() { return optional("failed", INTEGER); }

        public Long cancelled() { return optional("cancelled", INTEGER); }

        /** Requested notifications without a final status. */
        public Long inFlight() { return optional("in_flight", INTEGER); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** A user, as the directory has it. Addresses are not shown. */
    public static final class ListedUser extends Body {
        ListedUser(Map<String, ?> members) { super(members); }

        public long userId() { return required("user_id", INTEGER); }

        public long clubId() { return required("club_id", INTEGER); }

        public String firstName() { return required("first_name", TEXT); }

        public String lastName() { return required("last_name", TEXT); }

        public String locale() { return required("locale", TEXT); }

        public String timeZone() { return required("time_zone", TEXT); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The message of a send. */
    public static final class MessageBody extends Body {
        MessageBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        /** Null: the message is not kept. */
        public ContentOfSend content() { return optional("content", body(ContentOfSend::new)); }

        /**
         * The names of the data whose values are left out, because the caller lacks the scope users:read and the send
         * has fewer than 20 users.
         */
        public List<String> hidden() { return required("hidden", listOf(TEXT)); }

        /**
         * Why the message is not kept. category: mandatory or not listed, small: a small send by Kafka at once,
         * expired: 30 days have passed, unknown: erased with a recipient, or the reason is no longer known.
         */
        public String reason() { return optional("reason", TEXT); }
    }

    /** Counts by bucket and dimensions. */
    public static final class MetricsBody extends Body {
        MetricsBody(Map<String, ?> members) { super(members); }

        public String granularity() { return required("granularity", TEXT); }

        public String start() { return required("start", TEXT); }

        public String end() { return required("end", TEXT); }

        public String timeZone() { return required("time_zone", TEXT); }

        public List<String> dimensions() { return required("dimensions", listOf(TEXT)); }

        public List<CountedRow> rows() { return required("rows", listOf(body(CountedRow::new))); }

        /** Whether there are more rows. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        /** The time between the end of a bucket and its completeness. */
        public long graceMs() { return required("grace_ms", INTEGER); }

        /** Whether the watermark is later than the end of the last bucket by the grace. */
        public boolean complete() { return required("complete", BOOLEAN); }

        public String revisedAt() { return optional("revised_at", TEXT); }

        public List<RevisedBucket> revised() { return required("revised", listOf(body(RevisedBucket::new))); }

        /** Counts of earlier buckets are deleted; null: none is. Days of a time zone are sums of such counts. */
        public String keptSince() { return optional("kept_since", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** The parameters of {@link Client#metrics}. */
    public static final class MetricsFilters extends Body {
        public MetricsFilters() { this(Map.of()); }

        MetricsFilters(Map<String, ?> members) { super(members); }

        /** one of minute, hour, day. */
        public MetricsFilters granularity(String value) { set("granularity", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public MetricsFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public MetricsFilters end(String value) { set("end", value); return this; }

        /** a name of the IANA time zone database, e.g. Europe/Madrid, Asia/Kolkata, UTC. */
        public MetricsFilters timeZone(String value) { set("time_zone", value); return this; }

        /** one of bucket, -bucket, -count_total. */
        public MetricsFilters order(String value) { set("order", value); return this; }

        /** zero: add rows of 0. */
        public MetricsFilters fill(String value) { set("fill", value); return this; }

        /** The maximum number of rows. */
        public MetricsFilters limit(long value) { set("limit", value); return this; }

        /** a whole number of 64 bits. */
        public MetricsFilters clubId(long... values) { set("club_id", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public MetricsFilters type(String... values) { set("type", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public MetricsFilters channel(String... values) { set("channel", values); return this; }

        /**
         * one of requested, duplicate, accepted, scheduled, held, collected, queued, sending, suppressed, cancelled,
         * expired, failed, digested, sent, delivered, bounced.
         */
        public MetricsFilters measure(String... values) { set("measure", values); return this; }

        /**
         * any of requested, duplicate, accepted, scheduled, held, collected, queued, sending, suppressed, cancelled,
         * expired, failed, digested, sent, delivered, bounced, several times or with commas between them.
         */
        public MetricsFilters measures(String... values) { set("measures", values); return this; }

        /**
         * any of opted_out, not_opted_in, unknown_user, not_following, no_device, no_address, device_inactive,
         * frequency_cap, not_needed, address_suppressed, no_template, template_error, invalid_address,
         * country_not_allowed, spend_limit, provider_rejected, dead_letter, unknown_channel, too_large,
         * bounced_permanent, bounced_transient, complained, expired, cancelled, replaced.
         */
        public MetricsFilters reason(String... values) { set("reason", values); return this; }

        /** any of club_id, type, channel, measure, reason, several times or with commas between them. */
        public MetricsFilters dimensions(String... values) { set("dimensions", values); return this; }
    }

    /** A new API key. Its text is in no later response. */
    public static final class NewKeyBody extends Body {
        NewKeyBody(Map<String, ?> members) { super(members); }

        /**
         * The secret text of the key, shown only now; null in the response to a repeated request with the same
         * Idempotency-Key. If the first response is lost, rotate the key.
         */
        public String key() { return optional("key", TEXT); }

        /** The digest of the text, which is the value of the key in API Gateway's usage plan. */
        public String sha256() { return required("sha256", TEXT); }

        public KeyRow properties() { return required("properties", body(KeyRow::new)); }
    }

    /** An endpoint with its secret. */
    public static final class NewWebhookBody extends Body {
        NewWebhookBody(Map<String, ?> members) { super(members); }

        /** The secret with which its webhooks are signed. No other response contains it. */
        public String secret() { return required("secret", TEXT); }

        public WebhookBody endpoint() { return required("endpoint", body(WebhookBody::new)); }
    }

    /** A time of a rule. */
    public static final class NextTime extends Body {
        NextTime(Map<String, ?> members) { super(members); }

        /** On the clocks of the schedule's time zone. */
        public String localTime() { return required("local_time", TEXT); }

        public String at() { return required("at", TEXT); }
    }

    /**
     * Why there is no message of a send. The last two are never stored. A later version of the API may have
     * further ones.
     */
    public static final class NotKept {
        public static final String CATEGORY = "category";
        public static final String CRITICAL = "critical";
        public static final String SMALL = "small";
        public static final String TOO_LARGE = "too_large";
        public static final String EXPIRED = "expired";
        public static final String UNKNOWN = "unknown";

        private NotKept() {}
    }

    /** A notification with its statuses. */
    public static final class NotificationBody extends Body {
        NotificationBody(Map<String, ?> members) { super(members); }

        public String notification() { return required("notification", TEXT); }

        /** The id in the message. */
        public String notificationId() { return required("notification_id", TEXT); }

        public String sendId() { return required("send_id", TEXT); }

        public long userId() { return required("user_id", INTEGER); }

        public String channel() { return required("channel", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String type() { return required("type", TEXT); }

        public String requestedAt() { return optional("requested_at", TEXT); }

        public String status() { return required("status", TEXT); }

        public String reason() { return optional("reason", TEXT); }

        /** The status and its reason in words. */
        public String decision() { return required("decision", TEXT); }

        /** The data of the decision, as in {@code timeline}. */
        public DecidedBy decidedBy() { return optional("decided_by", body(DecidedBy::new)); }

        /** The user's notifications of which each waits for the one before it, this one included; [] if it is none. */
        public List<NotificationOfChain> chain() { return required("chain", listOf(body(NotificationOfChain::new))); }

        /** The statuses in the order of their times. A repeated status of a redelivered record occurs once. */
        public List<StepBody> timeline() { return required("timeline", listOf(body(StepBody::new))); }

        /** The beginning of the stored log; null: no status is missing. */
        public String since() { return optional("since", TEXT); }

        public String watermark() { return optional("watermark", TEXT); }

        public String generatedAt() { return optional("generated_at", TEXT); }
    }

    /** What users receive of each event. It has one of users_path, audience and unit_attribute. */
    public static final class NotificationFields extends Body {
        public NotificationFields() { this(Map.of()); }

        NotificationFields(Map<String, ?> members) { super(members); }

        /** The category. */
        public String type() { return required("type", TEXT); }

        /** The category. */
        public NotificationFields type(String value) { set("type", value); return this; }

        /** Missing: those of the category. */
        public List<String> channels() { return optional("channels", listOf(TEXT)); }

        /** Missing: those of the category. */
        public NotificationFields channels(List<String> value) { set("channels", value); return this; }

        /** The type of the template, if it differs from the category. */
        public String template() { return optional("template", TEXT); }

        /** The type of the template, if it differs from the category. */
        public NotificationFields template(String value) { set("template", value); return this; }

        public String locale() { return optional("locale", TEXT); }

        public NotificationFields locale(String value) { set("locale", value); return this; }

        /** The name of a variable, and the path of its value in the event's data. */
        public Map<String, String> data() { return optional("data", mapOf(TEXT)); }

        /** The name of a variable, and the path of its value in the event's data. */
        public NotificationFields data(Map<String, String> value) { set("data", value); return this; }

        /** The options of the pushes, as in a send. */
        public Map<String, Object> push() { return optional("push", mapOf(ANY)); }

        /** The options of the pushes, as in a send. */
        public NotificationFields push(Map<String, Object> value) { set("push", value); return this; }

        /** The path in data of a user id, or of a list of user ids. */
        public String usersPath() { return optional("users_path", TEXT); }

        /** The path in data of a user id, or of a list of user ids. */
        public NotificationFields usersPath(String value) { set("users_path", value); return this; }

        /** Users by conditions. */
        public Map<String, Object> audience() { return optional("audience", mapOf(ANY)); }

        /** Users by conditions. */
        public NotificationFields audience(Map<String, Object> value) { set("audience", value); return this; }

        /** The attribute of users that has the event's unit. */
        public String unitAttribute() { return optional("unit_attribute", TEXT); }

        /** The attribute of users that has the event's unit. */
        public NotificationFields unitAttribute(String value) { set("unit_attribute", value); return this; }
    }

    /** A notification, with the condition under which it follows the one before it. */
    public static final class NotificationOfChain extends Body {
        NotificationOfChain(Map<String, ?> members) { super(members); }

        public String channel() { return required("channel", TEXT); }

        public String if_() { return optional("if", TEXT); }

        public String after() { return optional("after", TEXT); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** An occurrence of a schedule. */
    public static final class OccurrenceBody extends Body {
        OccurrenceBody(Map<String, ?> members) { super(members); }

        public String localTime() { return required("local_time", TEXT); }

        public String at() { return required("at", TEXT); }

        /** started: its send is being requested. */
        public String state() { return required("state", TEXT); }

        /** Why it was skipped: late, recipients_a_day (the owner's limit), or why the schedule was paused. */
        public String reason() { return optional("reason", TEXT); }

        /** The id of its send. */
        public String sendId() { return optional("send_id", TEXT); }
    }

    /** What made a send. A later version of the API may have further ones. */
    public static final class Origin {
        public static final String REQUEST = "request";
        public static final String DIGEST = "digest";

        private Origin() {}
    }

    /** Sends in progress, the counts of today, and open problems. */
    public static final class OverviewBody extends Body {
        OverviewBody(Map<String, ?> members) { super(members); }

        /** Those of the latest 100 sends that have not ended, then the latest others; at most 10. */
        public List<ListedSend> sends() { return required("sends", listOf(body(ListedSend::new))); }

        /**
         * False: the metrics database does not answer. Only sends are listed that are large, scheduled, to an audience
         * or controlled, and their counts are null.
         */
        public boolean countsKnown() { return required("counts_known", BOOLEAN); }

        public TodayBody today() { return optional("today", body(TodayBody::new)); }

        /**
         * Open dead letters: for a caller of every club all of them, otherwise those of its clubs among the latest
         * 100. null without the scope {@code operate}.
         */
        public Long deadLetters() { return optional("dead_letters", INTEGER); }

        /** The alarms that ring; null: nothing evaluates alarms, or the caller does not have the scope {@code operate}. */
        public List<AlarmRow> alarms() { return optional("alarms", listOf(body(AlarmRow::new))); }

        /** The endpoints that masscomm has disabled, at most 10; null without the scope {@code webhooks}. */
        public List<WebhookBody> webhooks() { return optional("webhooks", listOf(body(WebhookBody::new))); }

        /** null without the scope {@code operate}. */
        public OverviewHealth health() { return optional("health", body(OverviewHealth::new)); }

        /** The parts whose server does not answer: sends, today, dead_letters, alarms, webhooks or health. */
        public List<String> unavailable() { return required("unavailable", listOf(TEXT)); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** The parameters of {@link Client#overview}. */
    public static final class OverviewFilters extends Body {
        public OverviewFilters() { this(Map.of()); }

        OverviewFilters(Map<String, ?> members) { super(members); }

        /** Only these tenants; without it, all that the key may see. */
        public OverviewFilters clubId(long... values) { set("club_id", values); return this; }

        /** The hours that count as today, the present one included; by default those since midnight in UTC. */
        public OverviewFilters hours(long value) { set("hours", value); return this; }
    }

    /** How far the installation is behind. */
    public static final class OverviewHealth extends Body {
        OverviewHealth(Map<String, ?> members) { super(members); }

        /** Records that wait for a function. */
        public long lagTotal() { return required("lag_total", INTEGER); }

        /** The age of the directory's oldest generation; null: no heartbeat is known. */
        public Double stalenessS() { return optional("staleness_s", NUMBER); }
    }

    /** The pace of a send. */
    public static final class PaceOfSend extends Body {
        PaceOfSend(Map<String, ?> members) { super(members); }

        /** The most recipients that are released in a minute. */
        public Long perMinute() { return optional("per_minute", INTEGER); }

        /** How long its recipients are spread, such as 2h. */
        public String spreadOver() { return optional("spread_over", TEXT); }

        /** The end of the last minute for which recipients are planned; null: none are yet. */
        public String expectedEnd() { return optional("expected_end", TEXT); }
    }

    /** The pause of a send. */
    public static final class PauseBody extends Body {
        PauseBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public String status() { return required("status", TEXT); }

        public String pausedAt() { return required("paused_at", TEXT); }

        /** Notifications that are counted as published now; null if the counts are unknown. */
        public Long publishedBefore() { return optional("published_before", INTEGER); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The members of PausedBody. */
    public static final class PausedBody extends Body {
        PausedBody(Map<String, ?> members) { super(members); }

        /**
         * requested: by a request. Otherwise the owner could not request the send: its key has ended, it lacks the
         * tenant or a scope, or the category or the saved audience does not exist any more.
         */
        public String reason() { return required("reason", TEXT); }

        public String since() { return required("since", TEXT); }
    }

    /** A user's preferences. */
    public static final class PreferencesBody extends Body {
        PreferencesBody(Map<String, ?> members) { super(members); }

        public long userId() { return required("user_id", INTEGER); }

        public long clubId() { return required("club_id", INTEGER); }

        /** The user's rules for channels. */
        public Map<String, Boolean> channels() { return required("channels", mapOf(BOOLEAN)); }

        /** The user's rules for categories. */
        public Map<String, Object> categories() { return required("categories", mapOf(ANY)); }

        /** The user's quiet hours; null: there are none. */
        public QuietHoursBody quietHours() { return optional("quiet_hours", body(QuietHoursBody::new)); }

        /** The row that sets or removes quiet hours; null: no row does. */
        public RowBody quietHoursRow() { return optional("quiet_hours_row", body(RowBody::new)); }

        /** The result for each category on each channel. */
        public List<EffectivePreference> effective() { return required("effective", listOf(body(EffectivePreference::new))); }

        /** Category → its titles and descriptions. A category without any has no entry. */
        public Map<String, CategoryTexts> texts() { return required("texts", mapOf(body(CategoryTexts::new))); }

        /** The time of the newest change in the user's settings; null: it is unknown, or there are no settings. */
        public String changedAt() { return optional("changed_at", TEXT); }

        /** Whether the monolith has not applied a change yet. The change applies to notifications already. */
        public boolean pending() { return required("pending", BOOLEAN); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The rules to set. Rules that are not named stay as they are. */
    public static final class PreferencesRequest extends Body {
        public PreferencesRequest() { this(Map.of()); }

        PreferencesRequest(Map<String, ?> members) { super(members); }

        /** Channel → whether the user wants it, for categories without a rule of their own. */
        public PreferencesRequest channels(Map<String, Boolean> value) { set("channels", value); return this; }

        /** Category → whether the user wants it, on every channel or by channel. */
        public PreferencesRequest categories(Map<String, Object> value) { set("categories", value); return this; }

        /** The quiet hours; null removes them. */
        public PreferencesRequest quietHours(QuietHoursBody value) { set("quiet_hours", value); return this; }
    }

    /** The messages of one user. */
    public static final class PreviewBody extends Body {
        PreviewBody(Map<String, ?> members) { super(members); }

        /** Whether the user would get a message on each channel, unless preferences or quiet hours prevent it. */
        public boolean complete() { return required("complete", BOOLEAN); }

        public List<PreviewedMessage> messages() { return required("messages", listOf(body(PreviewedMessage::new))); }

        /** The warnings that the response to the send would have. */
        public List<FieldErrorBody> warnings() { return required("warnings", listOf(body(FieldErrorBody::new))); }
    }

    /** The body of a request to POST /v1/previews. */
    public static final class PreviewRequest extends Body {
        public PreviewRequest() { this(Map.of()); }

        PreviewRequest(Map<String, ?> members) { super(members); }

        public PreviewRequest type(String value) { set("type", value); return this; }

        public PreviewRequest clubId(long value) { set("club_id", value); return this; }

        public PreviewRequest channels(List<String> value) { set("channels", value); return this; }

        public PreviewRequest template(String value) { set("template", value); return this; }

        public PreviewRequest data(Map<String, String> value) { set("data", value); return this; }

        public PreviewRequest locale(String value) { set("locale", value); return this; }

        public PreviewRequest push(PushFields value) { set("push", value); return this; }

        /** The user; without it, the values in {@code user}. */
        public PreviewRequest userId(Long value) { set("user_id", value); return this; }

        public PreviewRequest user(PreviewUser value) { set("user", value); return this; }

        public PreviewRequest draft(Draft value) { set("draft", value); return this; }
    }

    /** The values of a user that does not have to exist. */
    public static final class PreviewUser extends Body {
        public PreviewUser() { this(Map.of()); }

        PreviewUser(Map<String, ?> members) { super(members); }

        public PreviewUser firstName(String value) { set("first_name", value); return this; }

        public PreviewUser lastName(String value) { set("last_name", value); return this; }

        public PreviewUser locale(String value) { set("locale", value); return this; }

        public PreviewUser attributes(Map<String, Object> value) { set("attributes", value); return this; }
    }

    /** The SMS to a country of the tenant, as it is billed. */
    public static final class PreviewedCountry extends Body {
        PreviewedCountry(Map<String, ?> members) { super(members); }

        /** ISO 3166, two letters. */
        public String country() { return required("country", TEXT); }

        public long segments() { return required("segments", INTEGER); }

        public double usd() { return required("usd", NUMBER); }
    }

    /** The message on one channel. */
    public static final class PreviewedMessage extends Body {
        PreviewedMessage(Map<String, ?> members) { super(members); }

        public String channel() { return required("channel", TEXT); }

        /** Null: a draft, or title and body of the data. */
        public PreviewedTemplate template() { return optional("template", body(PreviewedTemplate::new)); }

        /**
         * The texts: title, body and url of a push; subject, text and html of an e-mail; text of an SMS. Null: there
         * is no message.
         */
        public Map<String, String> fields() { return optional("fields", mapOf(TEXT)); }

        /** The variables without a value; in the texts, their names in brackets replace them. */
        public List<String> missing() { return required("missing", listOf(TEXT)); }

        /** The reason why the user would not get this message. */
        public String problem() { return optional("problem", TEXT); }

        /** The code of the reason, with its values. */
        public CodedBody problemText() { return optional("problem_text", body(CodedBody::new)); }

        /** The push on each platform; empty for another message, and for none. */
        public List<PreviewedPlatform> platforms() { return required("platforms", listOf(body(PreviewedPlatform::new))); }

        /** Null for another message, and for none. */
        public PreviewedSms sms() { return optional("sms", body(PreviewedSms::new)); }
    }

    /** A push as a platform gets it, without a {@code collapse_key}. */
    public static final class PreviewedPlatform extends Body {
        PreviewedPlatform(Map<String, ?> members) { super(members); }

        public String platform() { return required("platform", TEXT); }

        /** The body, which may be shortened. */
        public String body() { return required("body", TEXT); }

        public boolean shortened() { return required("shortened", BOOLEAN); }

        public long payloadBytes() { return required("payload_bytes", INTEGER); }

        /** Whether the push fails, because the platform accepts 4,096 bytes. */
        public boolean tooLarge() { return required("too_large", BOOLEAN); }
    }

    /** An SMS as it is sent, with the way to opt out if its recipients cannot answer STOP. */
    public static final class PreviewedSms extends Body {
        PreviewedSms(Map<String, ?> members) { super(members); }

        /** That of the SMS with the most segments. */
        public String encoding() { return required("encoding", TEXT); }

        /** The most segments of the SMS to a country; of the text alone if the tenant sends to none. */
        public long segments() { return required("segments", INTEGER); }

        /** Whether the SMS fails, because it has more than 6 segments. */
        public boolean tooLarge() { return required("too_large", BOOLEAN); }

        public List<PreviewedCountry> countries() { return required("countries", listOf(body(PreviewedCountry::new))); }

        /** The day of the prices. */
        public String pricesAsOf() { return optional("prices_as_of", TEXT); }
    }

    /** The template that a message is rendered from. */
    public static final class PreviewedTemplate extends Body {
        PreviewedTemplate(Map<String, ?> members) { super(members); }

        public long id() { return required("id", INTEGER); }

        /** The tenant that the template belongs to; null: it is for every tenant. */
        public Long clubId() { return optional("club_id", INTEGER); }

        public String locale() { return required("locale", TEXT); }
    }

    /** Problem details (RFC 9457). Code, parameters and texts are those of the detail. */
    public static final class ProblemBody extends Body {
        ProblemBody(Map<String, ?> members) { super(members); }

        /** Names the text. {@code x-texts} of {@code ProblemBody} has the codes; later versions may have further ones. */
        public String code() { return optional("code", TEXT); }

        /** The values in the text. */
        public Map<String, Object> parameters() { return optional("parameters", mapOf(ANY)); }

        /** The codes of those values in {@code parameters} that are texts themselves, by the name of the value. */
        public Map<String, CodedBody> texts() { return optional("texts", mapOf(body(CodedBody::new))); }

        public String type() { return required("type", TEXT); }

        public String title() { return required("title", TEXT); }

        public long status() { return required("status", INTEGER); }

        public String detail() { return required("detail", TEXT); }

        public List<FieldErrorBody> errors() { return optional("errors", listOf(body(FieldErrorBody::new))); }
    }

    /** A button of a push, which the app shows. */
    public static final class PushAction extends Body {
        public PushAction() { this(Map.of()); }

        PushAction(Map<String, ?> members) { super(members); }

        public PushAction id(String value) { set("id", value); return this; }

        public PushAction title(String value) { set("title", value); return this; }

        /** The address that the app opens: https, or the scheme of an app. */
        public PushAction url(String value) { set("url", value); return this; }
    }

    /** The options of a push. A silent one shows nothing: the app gets {@code data}. */
    public static final class PushFields extends Body {
        public PushFields() { this(Map.of()); }

        PushFields(Map<String, ?> members) { super(members); }

        /** The address of a picture. */
        public PushFields image(String value) { set("image", value); return this; }

        /** The number at the icon of the app; 0 removes it. */
        public PushFields badge(long value) { set("badge", value); return this; }

        /** The name of a sound of the app, or {@code default}. */
        public PushFields sound(String value) { set("sound", value); return this; }

        /** Whether the push has {@code data} only. Quiet hours and frequency caps do not apply to it. */
        public PushFields silent(boolean value) { set("silent", value); return this; }

        /** The id of a notification channel of the Android app. */
        public PushFields androidChannel(String value) { set("android_channel", value); return this; }

        /** Apple's interruption level. */
        public PushFields interruptionLevel(String value) { set("interruption_level", value); return this; }

        /** Buttons. */
        public PushFields actions(List<PushAction> value) { set("actions", value); return this; }

        /** Values for the app. */
        public PushFields data(Map<String, String> value) { set("data", value); return this; }
    }

    /** The time of day, in the user's time zone, at which the user gets no notification. */
    public static final class QuietHoursBody extends Body {
        public QuietHoursBody() { this(Map.of()); }

        QuietHoursBody(Map<String, ?> members) { super(members); }

        /** HH:MM, inclusive. */
        public String start() { return required("start", TEXT); }

        /** HH:MM, inclusive. */
        public QuietHoursBody start(String value) { set("start", value); return this; }

        /** HH:MM, exclusive; before the start: on the next day. */
        public String end() { return required("end", TEXT); }

        /** HH:MM, exclusive; before the start: on the next day. */
        public QuietHoursBody end(String value) { set("end", value); return this; }
    }

    /** Why a notification has its status. A later version of the API may have further ones. */
    public static final class Reason {
        public static final String OPTED_OUT = "opted_out";
        public static final String NOT_OPTED_IN = "not_opted_in";
        public static final String UNKNOWN_USER = "unknown_user";
        public static final String NOT_FOLLOWING = "not_following";
        public static final String NO_DEVICE = "no_device";
        public static final String NO_ADDRESS = "no_address";
        public static final String DEVICE_INACTIVE = "device_inactive";
        public static final String FREQUENCY_CAP = "frequency_cap";
        public static final String NOT_NEEDED = "not_needed";
        public static final String ADDRESS_SUPPRESSED = "address_suppressed";
        public static final String NO_TEMPLATE = "no_template";
        public static final String TEMPLATE_ERROR = "template_error";
        public static final String INVALID_ADDRESS = "invalid_address";
        public static final String COUNTRY_NOT_ALLOWED = "country_not_allowed";
        public static final String SPEND_LIMIT = "spend_limit";
        public static final String PROVIDER_REJECTED = "provider_rejected";
        public static final String DEAD_LETTER = "dead_letter";
        public static final String UNKNOWN_CHANNEL = "unknown_channel";
        public static final String TOO_LARGE = "too_large";
        public static final String BOUNCED_PERMANENT = "bounced_permanent";
        public static final String BOUNCED_TRANSIENT = "bounced_transient";
        public static final String COMPLAINED = "complained";
        public static final String EXPIRED = "expired";
        public static final String CANCELLED = "cancelled";
        public static final String REPLACED = "replaced";

        private Reason() {}
    }

    /** A notification of a send. */
    public static final class RecipientBody extends Body {
        RecipientBody(Map<String, ?> members) { super(members); }

        public long userId() { return required("user_id", INTEGER); }

        public String channel() { return required("channel", TEXT); }

        public String status() { return required("status", TEXT); }

        public String reason() { return optional("reason", TEXT); }

        /** The status and its reason in words. */
        public String decision() { return required("decision", TEXT); }

        /** The data of the decision; null if neither a rule nor user settings determined the status. */
        public DecidedBy decidedBy() { return optional("decided_by", body(DecidedBy::new)); }

        /** The time of the status. */
        public String at() { return optional("at", TEXT); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The notifications of a send. */
    public static final class RecipientsBody extends Body {
        RecipientsBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public List<RecipientBody> rows() { return required("rows", listOf(body(RecipientBody::new))); }

        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /** The beginning of the stored log; null: no notification is missing. */
        public String since() { return optional("since", TEXT); }

        public String watermark() { return optional("watermark", TEXT); }

        public String generatedAt() { return optional("generated_at", TEXT); }
    }

    /** The parameters of {@link Client#recipients}. */
    public static final class RecipientsFilters extends Body {
        public RecipientsFilters() { this(Map.of()); }

        RecipientsFilters(Map<String, ?> members) { super(members); }

        /**
         * one of accepted, scheduled, held, collected, queued, sending, suppressed, cancelled, expired, failed,
         * digested, sent, delivered, bounced.
         */
        public RecipientsFilters status(String... values) { set("status", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public RecipientsFilters reason(String... values) { set("reason", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public RecipientsFilters channel(String... values) { set("channel", values); return this; }

        /** The maximum number of rows. */
        public RecipientsFilters limit(long value) { set("limit", value); return this; }
    }

    /** The send of a schedule: a send without times and without an id of its own. */
    public static final class RecurringSend extends Body {
        public RecurringSend() { this(Map.of()); }

        RecurringSend(Map<String, ?> members) { super(members); }

        /**
         * The category, as in schemas/categories.yaml; a category that is not listed there has the file's default
         * settings.
         */
        public RecurringSend type(String value) { set("type", value); return this; }

        /** The tenant (club). */
        public RecurringSend clubId(long value) { set("club_id", value); return this; }

        /** The channels: push, email; if empty, those of the category. */
        public RecurringSend channels(List<?> value) { set("channels", value); return this; }

        /** The type of the template, if it differs from the category. */
        public RecurringSend template(String value) { set("template", value); return this; }

        /** Variables for the template, the same for every recipient. */
        public RecurringSend data(Map<String, String> value) { set("data", value); return this; }

        /** The locale (BCP 47); null: each user's own. */
        public RecurringSend locale(String value) { set("locale", value); return this; }

        /**
         * The options of its pushes: a JSON object with image, badge, sound, silent, android_channel,
         * interruption_level, actions and data, of at most 2,048 bytes.
         */
        public RecurringSend push(PushFields value) { set("push", value); return this; }

        /** Users of the club by conditions or a saved audience (docs/audiences.md), instead of to_users. */
        public RecurringSend audience(Map<String, Object> value) { set("audience", value); return this; }

        /** User ids by position; a repeated id counts once, at its first position. */
        public RecurringSend toUsers(List<Long> value) { set("to_users", value); return this; }

        /** Variables of single recipients, which replace those of data: user id → name → text. */
        public RecurringSend recipientData(Map<String, Map<String, String>> value) { set("recipient_data", value); return this; }

        /** The lane of the send. That of a critical category is critical without it. */
        public RecurringSend priority(String value) { set("priority", value); return this; }

        /** A later push with the same key replaces the earlier one on the device. */
        public RecurringSend collapseKey(String value) { set("collapse_key", value); return this; }

        /** The producer's own id of the send; it is copied into derived records. */
        public RecurringSend reference(String value) { set("reference", value); return this; }

        /** How the notifications are collected; by default as the category says. */
        public RecurringSend digest(DigestRequest value) { set("digest", value); return this; }

        /** The most recipients that are released in a minute. */
        public RecurringSend perMinute(Long value) { set("per_minute", value); return this; }

        /** Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d. */
        public RecurringSend spreadOver(String value) { set("spread_over", value); return this; }
    }

    /** The events of a rule that became no send, for one reason. */
    public static final class RefusedEventsBody extends Body {
        RefusedEventsBody(Map<String, ?> members) { super(members); }

        public String reason() { return required("reason", TEXT); }

        /** Of the last event: the scope that is missing, or the limit. */
        public String detail() { return required("detail", TEXT); }

        /** Their number. An event whose processing is repeated may count again. */
        public long events() { return required("events", INTEGER); }

        public String lastAt() { return required("last_at", TEXT); }
    }

    /** A webhook that became no event. */
    public static final class RefusedWebhookBody extends Body {
        RefusedWebhookBody(Map<String, ?> members) { super(members); }

        /** The time of its receipt. */
        public String at() { return required("at", TEXT); }

        public String reason() { return required("reason", TEXT); }

        /** The field of the event and its problem, without a value of the webhook. */
        public String detail() { return required("detail", TEXT); }
    }

    /** The removal of a suppression. */
    public static final class RemovedSuppressionBody extends Body {
        RemovedSuppressionBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String status() { return required("status", TEXT); }
    }

    /** Which dead letters are sent again: those with these ids, or those of a span and a type. */
    public static final class ReplayWebhooksRequest extends Body {
        public ReplayWebhooksRequest() { this(Map.of()); }

        ReplayWebhooksRequest(Map<String, ?> members) { super(members); }

        public ReplayWebhooksRequest ids(List<String> value) { set("ids", value); return this; }

        /** The id or the time after which the span begins. */
        public ReplayWebhooksRequest after(String value) { set("after", value); return this; }

        /** The id of the last one of the span, or a time. */
        public ReplayWebhooksRequest upTo(String value) { set("up_to", value); return this; }

        public ReplayWebhooksRequest type(String value) { set("type", value); return this; }
    }

    /** A replayed dead letter. */
    public static final class ReplayedBody extends Body {
        ReplayedBody(Map<String, ?> members) { super(members); }

        public String position() { return required("position", TEXT); }

        public String status() { return required("status", TEXT); }

        /** The topic to which the record was produced again. */
        public String topic() { return required("topic", TEXT); }
    }

    /** Dead letters that are sent again, and deleted. */
    public static final class ReplayedWebhooksBody extends Body {
        ReplayedWebhooksBody(Map<String, ?> members) { super(members); }

        public long replayed() { return required("replayed", INTEGER); }

        /** Whether the span may have more: repeat the request. */
        public boolean truncated() { return required("truncated", BOOLEAN); }
    }

    /** A send after its move, or after the change of its pace. */
    public static final class RescheduleBody extends Body {
        RescheduleBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public String status() { return required("status", TEXT); }

        /** Null after a change of the pace. */
        public String sendAt() { return optional("send_at", TEXT); }

        /** Null after a move. */
        public Long perMinute() { return optional("per_minute", INTEGER); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The body of a request to move a scheduled send, or to change the pace of a send: one of the two. */
    public static final class RescheduleRequest extends Body {
        public RescheduleRequest() { this(Map.of()); }

        RescheduleRequest(Map<String, ?> members) { super(members); }

        /** The new time, in RFC 3339 with an offset. */
        public RescheduleRequest sendAt(String value) { set("send_at", value); return this; }

        /** The most recipients that are released in a minute from now on, of a send with a pace. */
        public RescheduleRequest perMinute(long value) { set("per_minute", value); return this; }
    }

    /** The end of a send's pause. */
    public static final class ResumeBody extends Body {
        ResumeBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public String status() { return required("status", TEXT); }

        public String resumedAt() { return required("resumed_at", TEXT); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** A complete bucket that late records have changed. */
    public static final class RevisedBucket extends Body {
        RevisedBucket(Map<String, ?> members) { super(members); }

        public String bucket() { return required("bucket", TEXT); }

        public String revisedAt() { return required("revised_at", TEXT); }
    }

    /** A revoked API key. */
    public static final class RevokedKeyBody extends Body {
        RevokedKeyBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String status() { return required("status", TEXT); }

        public String expiresAt() { return required("expires_at", TEXT); }
    }

    /** The body of a request to rotate an API key. */
    public static final class RotateKeyRequest extends Body {
        public RotateKeyRequest() { this(Map.of()); }

        RotateKeyRequest(Map<String, ?> members) { super(members); }

        /** The previous key is valid for this time: 0 to 720, by default 24. */
        public RotateKeyRequest hours(long value) { set("hours", value); return this; }
    }

    /** The row of the directory that decides. */
    public static final class RowBody extends Body {
        RowBody(Map<String, ?> members) { super(members); }

        /**
         * A table of the monolith as schemas/source.yaml names it, or preference_changes (changes through masscomm
         * that the monolith has not applied), tenant_preferences, device_state or suppressions.
         */
        public String table() { return required("table", TEXT); }

        /** It increases with each change of the row; that of user settings is in decision records. */
        public long version() { return required("version", INTEGER); }

        /** null: the time of the newest change is unknown. */
        public String changedAt() { return optional("changed_at", TEXT); }
    }

    /** A saved audience. */
    public static final class SavedAudienceBody extends Body {
        SavedAudienceBody(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String changedAt() { return required("changed_at", TEXT); }

        /** Its conditions, as in a send. */
        public Map<String, Object> audience() { return required("audience", mapOf(ANY)); }

        /** The header {@code ETag}, for {@code If-Match} of a change. */
        public String etag() { return required("etag", TEXT); }
    }

    /** The body of a request to PUT /v1/audiences/{name}. */
    public static final class SavedAudienceFields extends Body {
        public SavedAudienceFields() { this(Map.of()); }

        SavedAudienceFields(Map<String, ?> members) { super(members); }

        /** The conditions of docs/audiences.md, without {@code except_users}, which a send names. */
        public SavedAudienceFields audience(Map<String, Object> value) { set("audience", value); return this; }
    }

    /** A saved audience in a list. */
    public static final class SavedAudienceRow extends Body {
        SavedAudienceRow(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        /** The time of its last change. */
        public String changedAt() { return required("changed_at", TEXT); }
    }

    /** The saved audiences of a club, in the order of their names. */
    public static final class SavedAudiencesBody extends Body {
        SavedAudiencesBody(Map<String, ?> members) { super(members); }

        public List<SavedAudienceRow> rows() { return required("rows", listOf(body(SavedAudienceRow::new))); }
    }

    /** A schedule. */
    public static final class ScheduleBody extends Body {
        ScheduleBody(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        public String state() { return required("state", TEXT); }

        public PausedBody paused() { return optional("paused", body(PausedBody::new)); }

        public String rule() { return required("rule", TEXT); }

        public String timeZone() { return required("time_zone", TEXT); }

        public String type() { return required("type", TEXT); }

        public NextTime next() { return optional("next", body(NextTime::new)); }

        public String changedAt() { return required("changed_at", TEXT); }

        public String startsAtLocal() { return required("starts_at_local", TEXT); }

        public Long expiresAfterMinutes() { return optional("expires_after_minutes", INTEGER); }

        public String catchUp() { return required("catch_up", TEXT); }

        /** The principal that changed or resumed it last: each occurrence is made with its permissions and limits. */
        public String owner() { return required("owner", TEXT); }

        /** The send; without {@code users:read}, one to users has neither them nor its data. */
        public Map<String, Object> send() { return required("send", mapOf(ANY)); }

        /** The next occurrences, at most ten, if it is active. */
        public List<NextTime> nextTimes() { return required("next_times", listOf(body(NextTime::new))); }

        /** The last occurrences, the latest first. */
        public List<OccurrenceBody> history() { return required("history", listOf(body(OccurrenceBody::new))); }
    }

    /** The parameters of {@link Client#saveSchedule}. */
    public static final class ScheduleFilters extends Body {
        public ScheduleFilters() { this(Map.of()); }

        ScheduleFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public ScheduleFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** The parameters of {@link Client#pauseSchedule}. */
    public static final class SchedulePauseFilters extends Body {
        public SchedulePauseFilters() { this(Map.of()); }

        SchedulePauseFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public SchedulePauseFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** The body of a request to PUT /v1/schedules/{schedule}. */
    public static final class ScheduleRequest extends Body {
        public ScheduleRequest() { this(Map.of()); }

        ScheduleRequest(Map<String, ?> members) { super(members); }

        /** An RRULE of RFC 5545, such as {@code FREQ=WEEKLY;BYDAY=MO;BYHOUR=9;BYMINUTE=0}. It ends by UNTIL or COUNT. */
        public ScheduleRequest rule(String value) { set("rule", value); return this; }

        /** The time zone of the rule, such as {@code Europe/Zurich}. */
        public ScheduleRequest timeZone(String value) { set("time_zone", value); return this; }

        /** The date and time in this zone from which the rule counts, and whose parts it has where it names none. */
        public ScheduleRequest startsAtLocal(String value) { set("starts_at_local", value); return this; }

        /** The minutes after an occurrence at which its send expires. */
        public ScheduleRequest expiresAfterMinutes(Long value) { set("expires_after_minutes", value); return this; }

        /**
         * What becomes of occurrences that are more than 15 minutes late: they are skipped, or with {@code last} the
         * newest is made.
         */
        public ScheduleRequest catchUp(String value) { set("catch_up", value); return this; }

        /** The send: the body of {@code POST /v1/sends} without its times. */
        public ScheduleRequest send(RecurringSend value) { set("send", value); return this; }
    }

    /** The parameters of {@link Client#resumeSchedule}. */
    public static final class ScheduleResumeFilters extends Body {
        public ScheduleResumeFilters() { this(Map.of()); }

        ScheduleResumeFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public ScheduleResumeFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** A schedule in a list. */
    public static final class ScheduleRow extends Body {
        ScheduleRow(Map<String, ?> members) { super(members); }

        public String name() { return required("name", TEXT); }

        /** ended: the rule has no further time. */
        public String state() { return required("state", TEXT); }

        public PausedBody paused() { return optional("paused", body(PausedBody::new)); }

        public String rule() { return required("rule", TEXT); }

        public String timeZone() { return required("time_zone", TEXT); }

        /** The category of its sends. */
        public String type() { return required("type", TEXT); }

        /** The next occurrence, if it is active. */
        public NextTime next() { return optional("next", body(NextTime::new)); }

        public String changedAt() { return required("changed_at", TEXT); }
    }

    /** The schedules of a club, in the order of their names. */
    public static final class SchedulesBody extends Body {
        SchedulesBody(Map<String, ?> members) { super(members); }

        public List<ScheduleRow> rows() { return required("rows", listOf(body(ScheduleRow::new))); }
    }

    /** The parameters of {@link Client#schedules}. */
    public static final class SchedulesFilters extends Body {
        public SchedulesFilters() { this(Map.of()); }

        SchedulesFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public SchedulesFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** A permission of an API key. A later version of the API may have further ones. */
    public static final class Scope {
        public static final String SEND = "send";
        public static final String SEND_CRITICAL = "send:critical";
        public static final String SEND_MANDATORY = "send:mandatory";
        public static final String SEND_CONTENT = "send:content";
        public static final String READ = "read";
        public static final String USERS_READ = "users:read";
        public static final String USERS_WRITE = "users:write";
        public static final String WEBHOOKS = "webhooks";
        public static final String EVENTS = "events";
        public static final String OPERATE = "operate";
        public static final String ADMIN = "admin";

        private Scope() {}
    }

    /** A send with its notifications by status. */
    public static final class SendBody extends Body {
        SendBody(Map<String, ?> members) { super(members); }

        public String sendId() { return required("send_id", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String type() { return required("type", TEXT); }

        /** What made the send: a request, or a digest, whose message it is. */
        public String origin() { return required("origin", TEXT); }

        /** The requester's own id of the send, while the send is registered. */
        public String reference() { return optional("reference", TEXT); }

        public String status() { return required("status", TEXT); }

        public String requestedAt() { return optional("requested_at", TEXT); }

        /** The time to which the send was moved; otherwise its {@code send_at}, while the send is registered. */
        public String sendAt() { return optional("send_at", TEXT); }

        /** The {@code send_at_local} of a send that was not moved, while the send is registered. */
        public String sendAtLocal() { return optional("send_at_local", TEXT); }

        public Chunks chunks() { return required("chunks", body(Chunks::new)); }

        /** Null while the users of an audience are sought, and if only counts know it and do not answer. */
        public Long requested() { return optional("requested", INTEGER); }

        public Long duplicates() { return optional("duplicates", INTEGER); }

        /** False: the metrics database does not answer. All counts are null, and the status is that of the register. */
        public boolean countsKnown() { return required("counts_known", BOOLEAN); }

        public Map<String, Totals> channels() { return optional("channels", mapOf(body(Totals::new))); }

        public Totals totals() { return optional("totals", body(Totals::new)); }

        public Conservation conservation() { return optional("conservation", body(Conservation::new)); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        /**
         * Whether each notification has a final status and is counted: the list of recipients and the metrics have it,
         * too. The send's status is cancelled, ended or failed.
         */
        public boolean complete() { return required("complete", BOOLEAN); }

        public ControlOfSend control() { return optional("control", body(ControlOfSend::new)); }

        /** Of a send with a pace, while the send is registered. */
        public PaceOfSend pace() { return optional("pace", body(PaceOfSend::new)); }

        /** The channels that wait for another one, while the send is registered. */
        public List<ConditionOfChannel> fallbacks() { return required("fallbacks", listOf(body(ConditionOfChannel::new))); }

        /** Of a send to an audience, while the send is registered. */
        public ExpansionOfSend expansion() { return optional("expansion", body(ExpansionOfSend::new)); }

        public CancellationOfSend cancellation() { return optional("cancellation", body(CancellationOfSend::new)); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** A version of a send. */
    public static final class SendEventBody extends Body {
        SendEventBody(Map<String, ?> members) { super(members); }

        /** The value of {@code after} in the next request. */
        public String version() { return required("version", TEXT); }

        public boolean changed() { return required("changed", BOOLEAN); }

        /** Whether the send has ended: no further request is necessary. */
        public boolean complete() { return required("complete", BOOLEAN); }

        /** The body of GET /v1/sends/{send_id}, after a change. */
        public SendBody send() { return optional("send", body(SendBody::new)); }
    }

    /** Sends, the latest first. */
    public static final class SendListBody extends Body {
        SendListBody(Map<String, ?> members) { super(members); }

        public List<ListedSend> rows() { return required("rows", listOf(body(ListedSend::new))); }

        /** Whether there are more sends. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /**
         * False: the metrics database does not answer. Only sends are listed that are large, scheduled, to an audience
         * or controlled, and their counts are null.
         */
        public boolean countsKnown() { return required("counts_known", BOOLEAN); }

        /**
         * Whether sends without a counted record are listed. False for a caller of every club who names none:
         * scheduled sends to audiences are then missing, and without the metrics database all sends.
         */
        public boolean registeredListed() { return required("registered_listed", BOOLEAN); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        /** Sends whose first record was counted earlier are deleted; null: none is. */
        public String keptSince() { return optional("kept_since", TEXT); }

        /** Sends to at most 100 users that had ended, and did not change since, are deleted; null: none is. */
        public String smallKeptSince() { return optional("small_kept_since", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** The body of a request to POST /v1/sends. */
    public static final class SendRequest extends Body {
        public SendRequest() { this(Map.of()); }

        SendRequest(Map<String, ?> members) { super(members); }

        /**
         * The category, as in schemas/categories.yaml; a category that is not listed there has the file's default
         * settings.
         */
        public SendRequest type(String value) { set("type", value); return this; }

        /** The tenant (club). */
        public SendRequest clubId(long value) { set("club_id", value); return this; }

        /** The channels: push, email; if empty, those of the category. */
        public SendRequest channels(List<?> value) { set("channels", value); return this; }

        /** The type of the template, if it differs from the category. */
        public SendRequest template(String value) { set("template", value); return this; }

        /** Variables for the template, the same for every recipient. */
        public SendRequest data(Map<String, String> value) { set("data", value); return this; }

        /** The locale (BCP 47); null: each user's own. */
        public SendRequest locale(String value) { set("locale", value); return this; }

        /**
         * The options of its pushes: a JSON object with image, badge, sound, silent, android_channel,
         * interruption_level, actions and data, of at most 2,048 bytes.
         */
        public SendRequest push(PushFields value) { set("push", value); return this; }

        /** Users of the club by conditions or a saved audience (docs/audiences.md), instead of to_users. */
        public SendRequest audience(Map<String, Object> value) { set("audience", value); return this; }

        /** User ids by position; a repeated id counts once, at its first position. */
        public SendRequest toUsers(List<Long> value) { set("to_users", value); return this; }

        /** Variables of single recipients, which replace those of data: user id → name → text. */
        public SendRequest recipientData(Map<String, Map<String, String>> value) { set("recipient_data", value); return this; }

        /** The lane of the send. That of a critical category is critical without it. */
        public SendRequest priority(String value) { set("priority", value); return this; }

        /** A later push with the same key replaces the earlier one on the device. */
        public SendRequest collapseKey(String value) { set("collapse_key", value); return this; }

        /** The producer's own id of the send; it is copied into derived records. */
        public SendRequest reference(String value) { set("reference", value); return this; }

        /** How the notifications are collected; by default as the category says. */
        public SendRequest digest(DigestRequest value) { set("digest", value); return this; }

        /** The most recipients that are released in a minute. */
        public SendRequest perMinute(Long value) { set("per_minute", value); return this; }

        /** Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d. */
        public SendRequest spreadOver(String value) { set("spread_over", value); return this; }

        /**
         * When the users of the audience of a scheduled send are found: at its time ({@code due}, the default) or at
         * the request.
         */
        public SendRequest audienceAt(String value) { set("audience_at", value); return this; }

        /** The time after which no message is published. */
        public SendRequest expiresAt(String value) { set("expires_at", value); return this; }

        /** The time before which no message is published. */
        public SendRequest sendAt(String value) { set("send_at", value); return this; }

        /**
         * Instead of send_at, a date and time without a zone, such as 2026-11-24T09:00: no message is published before
         * it in the recipient's own time zone.
         */
        public SendRequest sendAtLocal(String value) { set("send_at_local", value); return this; }

        /**
         * The id of the send, chosen by the caller: a random UUID in lower case. Without it, the service makes one. A
         * name of the caller's own belongs into {@code reference}.
         */
        public SendRequest sendId(String value) { set("send_id", value); return this; }

        /** Which of the requests of the send this one is, from 0. */
        public SendRequest partIndex(long value) { set("part_index", value); return this; }

        /** The number of requests under this send_id, in any order. */
        public SendRequest partCount(long value) { set("part_count", value); return this; }
    }

    /**
     * The state of a send, as counted. Its chunks and notifications are counted seconds after their records are
     * produced. A later version of the API may have further ones.
     */
    public static final class SendState {
        public static final String EXPANDING = "expanding";
        public static final String ACCEPTED = "accepted";
        public static final String SCHEDULED = "scheduled";
        public static final String IN_PROGRESS = "in_progress";
        public static final String PAUSED = "paused";
        public static final String CANCELLING = "cancelling";
        public static final String CANCELLED = "cancelled";
        public static final String ENDED = "ended";
        public static final String FAILED = "failed";

        private SendState() {}
    }

    /** The parameters of {@link Client#sends}. */
    public static final class SendsFilters extends Body {
        public SendsFilters() { this(Map.of()); }

        SendsFilters(Map<String, ?> members) { super(members); }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public SendsFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public SendsFilters end(String value) { set("end", value); return this; }

        /** 1 to 200 characters, no NUL. */
        public SendsFilters type(String... values) { set("type", values); return this; }

        /** one of expanding, accepted, scheduled, in_progress, paused, cancelling, cancelled, ended, failed. */
        public SendsFilters status(String... values) { set("status", values); return this; }

        /** What made the sends. Messages of digests are left out by default. */
        public SendsFilters origin(String... values) { set("origin", values); return this; }

        /**
         * A part of the name, the category or the id, in any case. A page then reads 200 sends, and may have no row;
         * {@code next_cursor} continues.
         */
        public SendsFilters search(String value) { set("search", value); return this; }

        /** The maximum number of rows. */
        public SendsFilters limit(long value) { set("limit", value); return this; }

        /** a whole number of 64 bits. */
        public SendsFilters clubId(long... values) { set("club_id", values); return this; }
    }

    /** A source of incoming webhooks, with its last webhooks. */
    public static final class ShownSourceBody extends Body {
        ShownSourceBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public String url() { return required("url", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String scheme() { return required("scheme", TEXT); }

        public Map<String, Object> mapping() { return required("mapping", mapOf(ANY)); }

        public List<Long> clubIds() { return optional("club_ids", listOf(INTEGER)); }

        public String description() { return required("description", TEXT); }

        public String header() { return required("header", TEXT); }

        public String encoding() { return required("encoding", TEXT); }

        public String prefix() { return required("prefix", TEXT); }

        public String idHeader() { return required("id_header", TEXT); }

        /**
         * The last ten webhooks that became events, the latest first. Of those that are accepted at once, some may be
         * missing.
         */
        public List<AcceptedWebhookBody> accepted() { return required("accepted", listOf(body(AcceptedWebhookBody::new))); }

        /** The number of all refused webhooks; 0 after 14 days without one. */
        public long refused() { return required("refused", INTEGER); }

        /** The last 100 of them, the latest first. */
        public List<RefusedWebhookBody> refusals() { return required("refusals", listOf(body(RefusedWebhookBody::new))); }
    }

    /** A send in a batch. */
    public static final class SmallSend extends Body {
        public SmallSend() { this(Map.of()); }

        SmallSend(Map<String, ?> members) { super(members); }

        public SmallSend type(String value) { set("type", value); return this; }

        public SmallSend clubId(long value) { set("club_id", value); return this; }

        public SmallSend channels(List<?> value) { set("channels", value); return this; }

        public SmallSend template(String value) { set("template", value); return this; }

        public SmallSend data(Map<String, String> value) { set("data", value); return this; }

        public SmallSend locale(String value) { set("locale", value); return this; }

        public SmallSend push(PushFields value) { set("push", value); return this; }

        /** A send of a batch names its users. */
        public SmallSend audience(Object value) { set("audience", value); return this; }

        public SmallSend toUsers(List<Long> value) { set("to_users", value); return this; }

        /** Variables of single recipients, which replace those of data: user id → name → text. */
        public SmallSend recipientData(Map<String, Map<String, String>> value) { set("recipient_data", value); return this; }

        /** The lane of the send. That of a critical category is critical without it. */
        public SmallSend priority(String value) { set("priority", value); return this; }

        public SmallSend collapseKey(String value) { set("collapse_key", value); return this; }

        public SmallSend reference(String value) { set("reference", value); return this; }

        /** How the notifications are collected; by default as the category says. */
        public SmallSend digest(DigestRequest value) { set("digest", value); return this; }

        /** The most recipients that are released in a minute. */
        public SmallSend perMinute(Long value) { set("per_minute", value); return this; }

        /** Instead of per_minute, how long the recipients are spread, such as 90m, 2h or 1d; at most 7d. */
        public SmallSend spreadOver(String value) { set("spread_over", value); return this; }

        /**
         * When the users of the audience of a scheduled send are found: at its time ({@code due}, the default) or at
         * the request.
         */
        public SmallSend audienceAt(String value) { set("audience_at", value); return this; }

        public SmallSend expiresAt(String value) { set("expires_at", value); return this; }

        public SmallSend sendAt(String value) { set("send_at", value); return this; }

        public SmallSend sendAtLocal(String value) { set("send_at_local", value); return this; }

        /** The id of a send of a batch follows from the batch's. */
        public SmallSend sendId(Object value) { set("send_id", value); return this; }

        /** A send of a batch has one part. */
        public SmallSend partIndex(long value) { set("part_index", value); return this; }

        /** A send of a batch has one part. */
        public SmallSend partCount(long value) { set("part_count", value); return this; }
    }

    /** A source of incoming webhooks, without its secret. */
    public static final class SourceBody extends Body {
        SourceBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        /** The address to which the sender posts. Its id is as secret as a password. */
        public String url() { return required("url", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String scheme() { return required("scheme", TEXT); }

        public Map<String, Object> mapping() { return required("mapping", mapOf(ANY)); }

        public List<Long> clubIds() { return optional("club_ids", listOf(INTEGER)); }

        public String description() { return required("description", TEXT); }

        public String header() { return required("header", TEXT); }

        public String encoding() { return required("encoding", TEXT); }

        public String prefix() { return required("prefix", TEXT); }

        public String idHeader() { return required("id_header", TEXT); }
    }

    /** A source of incoming webhooks. */
    public static final class SourceFields extends Body {
        public SourceFields() { this(Map.of()); }

        SourceFields(Map<String, ?> members) { super(members); }

        /** The tenant to which the source belongs. */
        public SourceFields clubId(long value) { set("club_id", value); return this; }

        /** How the sender signs: standard (Standard Webhooks), stripe, github, or hmac (HMAC-SHA256 of the body). */
        public SourceFields scheme(String value) { set("scheme", value); return this; }

        /** For type, club_id and optionally unit, key, occurred_at, event_id and data: a value, or a path in the body. */
        public SourceFields mapping(Map<String, Object> value) { set("mapping", value); return this; }

        /** The secret of the signatures. Without it, a source that exists keeps its own. */
        public SourceFields secret(String value) { set("secret", value); return this; }

        /** The tenants of its events; by default its own, null: every tenant. */
        public SourceFields clubIds(List<Long> value) { set("club_ids", value); return this; }

        public SourceFields description(String value) { set("description", value); return this; }

        /** Of the scheme hmac: the header with the signature. */
        public SourceFields header(String value) { set("header", value); return this; }

        /** Of the scheme hmac: hex (the default) or base64. */
        public SourceFields encoding(String value) { set("encoding", value); return this; }

        /** Of the scheme hmac: the text before the signature, such as sha256=. */
        public SourceFields prefix(String value) { set("prefix", value); return this; }

        /** Of the scheme hmac: the header with the id of a webhook, which its repetitions have as well. */
        public SourceFields idHeader(String value) { set("id_header", value); return this; }
    }

    /** The sources of a club. */
    public static final class SourcesBody extends Body {
        SourcesBody(Map<String, ?> members) { super(members); }

        public List<SourceBody> rows() { return required("rows", listOf(body(SourceBody::new))); }
    }

    /** The parameters of {@link Client#sources}. */
    public static final class SourcesFilters extends Body {
        public SourcesFilters() { this(Map.of()); }

        SourcesFilters(Map<String, ?> members) { super(members); }

        /** The tenant. */
        public SourcesFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** The status of one notification (one user on one channel). A later version of the API may have further ones. */
    public static final class Status {
        public static final String ACCEPTED = "accepted";
        public static final String SCHEDULED = "scheduled";
        public static final String HELD = "held";
        public static final String COLLECTED = "collected";
        public static final String QUEUED = "queued";
        public static final String SENDING = "sending";
        public static final String SUPPRESSED = "suppressed";
        public static final String CANCELLED = "cancelled";
        public static final String EXPIRED = "expired";
        public static final String FAILED = "failed";
        public static final String DIGESTED = "digested";
        public static final String SENT = "sent";
        public static final String DELIVERED = "delivered";
        public static final String BOUNCED = "bounced";

        private Status() {}
    }

    /** A status that a notification reached. */
    public static final class StepBody extends Body {
        StepBody(Map<String, ?> members) { super(members); }

        public String at() { return optional("at", TEXT); }

        public String status() { return required("status", TEXT); }

        public String reason() { return optional("reason", TEXT); }

        /** The status and its reason in words. */
        public String decision() { return required("decision", TEXT); }

        /** The data of the decision; null if neither a rule nor user settings determined the status. */
        public DecidedBy decidedBy() { return optional("decided_by", body(DecidedBy::new)); }
    }

    /** The state of counting, and the queried counts after a change. */
    public static final class StreamBody extends Body {
        StreamBody(Map<String, ?> members) { super(members); }

        /** The value of {@code since} in the next request. */
        public String cursor() { return required("cursor", TEXT); }

        public boolean changed() { return required("changed", BOOLEAN); }

        /** The body of GET /v1/metrics, if the request has its parameters and counts have changed. */
        public MetricsBody metrics() { return optional("metrics", body(MetricsBody::new)); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        public boolean complete() { return required("complete", BOOLEAN); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** A subscription. */
    public static final class SubscriptionBody extends Body {
        SubscriptionBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        /** Null: its events become notifications. */
        public String endpointId() { return optional("endpoint_id", TEXT); }

        public List<String> types() { return required("types", listOf(TEXT)); }

        /** Those that the caller may see; null: every tenant. */
        public List<Long> clubIds() { return optional("club_ids", listOf(INTEGER)); }

        public List<String> units() { return required("units", listOf(TEXT)); }

        public Map<String, List<Object>> filter() { return required("filter", mapOf(listOf(ANY))); }

        /** The paths in data that are sent; empty: all data. */
        public List<String> fields() { return required("fields", listOf(TEXT)); }

        public NotificationFields notification() { return optional("notification", body(NotificationFields::new)); }

        /** The API key or person whose permissions and limits apply to the notifications. */
        public String owner() { return optional("owner", TEXT); }

        /** The events that became no send since the rule was created, the latest reason first. */
        public List<RefusedEventsBody> refused() { return required("refused", listOf(body(RefusedEventsBody::new))); }
    }

    /** A new subscription. It has an endpoint, or a notification for users. */
    public static final class SubscriptionFields extends Body {
        public SubscriptionFields() { this(Map.of()); }

        SubscriptionFields(Map<String, ?> members) { super(members); }

        public SubscriptionFields endpointId(String value) { set("endpoint_id", value); return this; }

        /** Event types, prefixes of whole parts such as {@code match.*}, or {@code *}. */
        public SubscriptionFields types(List<String> value) { set("types", value); return this; }

        /** The tenants whose events match; missing: all that the caller may see now. */
        public SubscriptionFields clubIds(List<Long> value) { set("club_ids", value); return this; }

        /** The units whose events match, each with the units below it; empty or missing: every unit. */
        public SubscriptionFields units(List<String> value) { set("units", value); return this; }

        /** A path in data, and the values that match; each path must match. */
        public SubscriptionFields filter(Map<String, List<Object>> value) { set("filter", value); return this; }

        /** The paths in data that are sent, such as player.id; empty or missing: all data. */
        public SubscriptionFields fields(List<String> value) { set("fields", value); return this; }

        /** Each event becomes a send, with the permissions and limits of the caller at that time. */
        public SubscriptionFields notification(NotificationFields value) { set("notification", value); return this; }
    }

    /** The subscriptions of an endpoint, or those whose events become notifications. */
    public static final class SubscriptionsBody extends Body {
        SubscriptionsBody(Map<String, ?> members) { super(members); }

        public List<SubscriptionBody> rows() { return required("rows", listOf(body(SubscriptionBody::new))); }
    }

    /** The parameters of {@link Client#subscriptions}. */
    public static final class SubscriptionsFilters extends Body {
        public SubscriptionsFilters() { this(Map.of()); }

        SubscriptionsFilters(Map<String, ?> members) { super(members); }

        /** The id of the endpoint. */
        public SubscriptionsFilters endpointId(String value) { set("endpoint_id", value); return this; }

        /** The club of the notifications. */
        public SubscriptionsFilters clubId(long value) { set("club_id", value); return this; }
    }

    /** An address to which a club sends no e-mail. */
    public static final class SuppressionRow extends Body {
        SuppressionRow(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        /** The SHA-256 of the address in small letters, in hex. The address itself is not stored. */
        public String addressId() { return required("address_id", TEXT); }

        public String reason() { return required("reason", TEXT); }

        public String at() { return required("at", TEXT); }

        public String expiresAt() { return required("expires_at", TEXT); }
    }

    /** Suppressions, the latest first. */
    public static final class SuppressionsBody extends Body {
        SuppressionsBody(Map<String, ?> members) { super(members); }

        public List<SuppressionRow> rows() { return required("rows", listOf(body(SuppressionRow::new))); }

        /** Whether there are more suppressions. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The parameters of {@link Client#suppressions}. */
    public static final class SuppressionsFilters extends Body {
        public SuppressionsFilters() { this(Map.of()); }

        SuppressionsFilters(Map<String, ?> members) { super(members); }

        /** a whole number of 64 bits. */
        public SuppressionsFilters clubId(long... values) { set("club_id", values); return this; }

        /** The SHA-256 of the address in small letters: a SHA-256 in hex: 64 digits. */
        public SuppressionsFilters addressId(String value) { set("address_id", value); return this; }

        /** The maximum number of rows. */
        public SuppressionsFilters limit(long value) { set("limit", value); return this; }
    }

    /** A template, without its body. */
    public static final class TemplateBody extends Body {
        TemplateBody(Map<String, ?> members) { super(members); }

        public long id() { return required("id", INTEGER); }

        /** The tenant that the template belongs to; null: it is for every tenant. */
        public Long clubId() { return optional("club_id", INTEGER); }

        public String type() { return required("type", TEXT); }

        public String channel() { return required("channel", TEXT); }

        public String locale() { return required("locale", TEXT); }

        /** The beginning of the title or subject, with its variables. */
        public String title() { return required("title", TEXT); }

        /** The variables that the template reads, such as {@code data.opponent}. */
        public List<String> variables() { return required("variables", listOf(TEXT)); }

        /** The reason why no message can be rendered from the template. */
        public String problem() { return optional("problem", TEXT); }

        /** The code of the reason, with its values. */
        public CodedBody problemText() { return optional("problem_text", body(CodedBody::new)); }
    }

    /** Templates by id. */
    public static final class TemplatesBody extends Body {
        TemplatesBody(Map<String, ?> members) { super(members); }

        public List<TemplateBody> rows() { return required("rows", listOf(body(TemplateBody::new))); }

        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The parameters of {@link Client#templates}. */
    public static final class TemplatesFilters extends Body {
        public TemplatesFilters() { this(Map.of()); }

        TemplatesFilters(Map<String, ?> members) { super(members); }

        /** a whole number of 64 bits. */
        public TemplatesFilters clubId(long... values) { set("club_id", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public TemplatesFilters type(String... values) { set("type", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public TemplatesFilters channel(String... values) { set("channel", values); return this; }

        /** The maximum number of rows. */
        public TemplatesFilters limit(long value) { set("limit", value); return this; }
    }

    /** The rules of a tenant, or of every tenant. */
    public static final class TenantPreferencesBody extends Body {
        TenantPreferencesBody(Map<String, ?> members) { super(members); }

        /** The tenant; null: the rules are for every tenant. */
        public Long clubId() { return optional("club_id", INTEGER); }

        /** The rules for channels. */
        public Map<String, Boolean> channels() { return required("channels", mapOf(BOOLEAN)); }

        /** The rules for categories. */
        public Map<String, Object> categories() { return required("categories", mapOf(ANY)); }

        /** The time of the last change; null: there was none, or it is unknown. */
        public String changedAt() { return optional("changed_at", TEXT); }

        /** The header {@code ETag}, for {@code If-Match} of a change. */
        public String etag() { return required("etag", TEXT); }

        public Links links() { return required("links", body(Links::new)); }
    }

    /** The body of a request to PUT /v1/tenants/{tenant}/preferences. It replaces all rules. */
    public static final class TenantPreferencesFields extends Body {
        public TenantPreferencesFields() { this(Map.of()); }

        TenantPreferencesFields(Map<String, ?> members) { super(members); }

        /** Channel → whether users get it, for categories without a rule of their own. */
        public TenantPreferencesFields channels(Map<String, Boolean> value) { set("channels", value); return this; }

        /** Category → whether users get it, on every channel or by channel. */
        public TenantPreferencesFields categories(Map<String, Object> value) { set("categories", value); return this; }
    }

    /** Notifications that reached a status today; one that was sent and then delivered is in both numbers. */
    public static final class TodayBody extends Body {
        TodayBody(Map<String, ?> members) { super(members); }

        public String since() { return required("since", TEXT); }

        public long requested() { return required("requested", INTEGER); }

        public long sent() { return required("sent", INTEGER); }

        public long delivered() { return required("delivered", INTEGER); }

        public long suppressed() { return required("suppressed", INTEGER); }

        public long failed() { return required("failed", INTEGER); }

        public long bounced() { return required("bounced", INTEGER); }
    }

    /** Numbers of notifications by status. */
    public static final class Totals extends Body {
        Totals(Map<String, ?> members) { super(members); }

        /** 0 while the users of an audience are sought. */
        public long requested() { return required("requested", INTEGER); }

        /** Users that were named more than once in a chunk; they are not counted in {@code requested}. */
        public long duplicates() { return required("duplicates", INTEGER); }

        /** Notifications that were written for delivery, whatever their later status is. */
        public long queued() { return required("queued", INTEGER); }

        /** By reason. */
        public Map<String, Long> suppressed() { return required("suppressed", mapOf(INTEGER)); }

        /** By reason. */
        public Map<String, Long> failed() { return required("failed", mapOf(INTEGER)); }

        /** Notifications that wait for the end of quiet hours. */
        public long held() { return required("held", INTEGER); }

        public long scheduled() { return required("scheduled", INTEGER); }

        /** Notifications that wait in digests. */
        public long collected() { return required("collected", INTEGER); }

        /** Notifications that are part of digests, whose messages are sends of their own. */
        public long digested() { return required("digested", INTEGER); }

        public long cancelled() { return required("cancelled", INTEGER); }

        public long expired() { return required("expired", INTEGER); }

        public long sent() { return required("sent", INTEGER); }

        public long delivered() { return required("delivered", INTEGER); }

        public long bounced() { return required("bounced", INTEGER); }

        /** Requested notifications without a final status. */
        public long inFlight() { return required("in_flight", INTEGER); }
    }

    /** A category or a club with its counts. */
    public static final class TrendingRow extends Body {
        TrendingRow(Map<String, ?> members) { super(members); }

        public String type() { return optional("type", TEXT); }

        public Long clubId() { return optional("club_id", INTEGER); }

        public Long countTotal() { return optional("count_total", INTEGER); }

        /** The count of the previous window. */
        public Long before() { return optional("before", INTEGER); }
    }

    /** The categories or clubs with the most notifications in a window. */
    public static final class TrendsBody extends Body {
        TrendsBody(Map<String, ?> members) { super(members); }

        public String by() { return required("by", TEXT); }

        public String measure() { return required("measure", TEXT); }

        public String start() { return required("start", TEXT); }

        public String end() { return required("end", TEXT); }

        public List<TrendingRow> rows() { return required("rows", listOf(body(TrendingRow::new))); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        public long graceMs() { return required("grace_ms", INTEGER); }

        public boolean complete() { return required("complete", BOOLEAN); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** A user, as the directory has it. Addresses are not shown. */
    public static final class UserBody extends Body {
        UserBody(Map<String, ?> members) { super(members); }

        public long userId() { return required("user_id", INTEGER); }

        public long clubId() { return required("club_id", INTEGER); }

        public String firstName() { return required("first_name", TEXT); }

        public String lastName() { return required("last_name", TEXT); }

        public String locale() { return required("locale", TEXT); }

        public String timeZone() { return required("time_zone", TEXT); }

        /** The channels on which the user can be reached: those with an address, or with an active device. */
        public List<String> channels() { return required("channels", listOf(TEXT)); }

        /** The devices by id, at most 50. */
        public List<UserDevice> devices() { return required("devices", listOf(body(UserDevice::new))); }

        /** Whether the user has more devices. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        /** null: the address is not suppressed, or the user has none. */
        public UserSuppression suppression() { return optional("suppression", body(UserSuppression::new)); }

        /** The row of names, locale and time zone. */
        public RowBody row() { return required("row", body(RowBody::new)); }

        public UserLinks links() { return required("links", body(UserLinks::new)); }
    }

    /** A device of the user. Its token and its endpoint are not shown. */
    public static final class UserDevice extends Body {
        UserDevice(Map<String, ?> members) { super(members); }

        public long deviceId() { return required("device_id", INTEGER); }

        public String platform() { return required("platform", TEXT); }

        public String status() { return required("status", TEXT); }

        /** The time of the newest change of the monolith's row; null: it is unknown. */
        public String changedAt() { return optional("changed_at", TEXT); }

        /** The row that decides about the status. */
        public RowBody row() { return required("row", body(RowBody::new)); }
    }

    /** The paths of the user. */
    public static final class UserLinks extends Body {
        UserLinks(Map<String, ?> members) { super(members); }

        public String self() { return required("self", TEXT); }

        public String preferences() { return required("preferences", TEXT); }

        public String notifications() { return required("notifications", TEXT); }

        public String stream() { return required("stream", TEXT); }
    }

    /** A notification of the user, with its status. */
    public static final class UserNotification extends Body {
        UserNotification(Map<String, ?> members) { super(members); }

        /** The time at which the notification reached its status. */
        public String at() { return required("at", TEXT); }

        public String sendId() { return required("send_id", TEXT); }

        public String channel() { return required("channel", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String type() { return required("type", TEXT); }

        public String status() { return required("status", TEXT); }

        public String reason() { return optional("reason", TEXT); }
    }

    /** A user's notifications, the latest first. */
    public static final class UserNotificationsBody extends Body {
        UserNotificationsBody(Map<String, ?> members) { super(members); }

        public long userId() { return required("user_id", INTEGER); }

        public List<UserNotification> rows() { return required("rows", listOf(body(UserNotification::new))); }

        /** Whether there are more notifications. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /** The beginning of the stored log; null: no notification is missing. */
        public String since() { return optional("since", TEXT); }

        /** The counts include all records that were in the topics at this time. */
        public String watermark() { return optional("watermark", TEXT); }

        public long graceMs() { return required("grace_ms", INTEGER); }

        public boolean complete() { return required("complete", BOOLEAN); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** The parameters of {@link Client#userNotifications}. */
    public static final class UserNotificationsFilters extends Body {
        public UserNotificationsFilters() { this(Map.of()); }

        UserNotificationsFilters(Map<String, ?> members) { super(members); }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public UserNotificationsFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public UserNotificationsFilters end(String value) { set("end", value); return this; }

        /** The maximum number of rows. */
        public UserNotificationsFilters limit(long value) { set("limit", value); return this; }

        /** a whole number of 64 bits. */
        public UserNotificationsFilters clubId(long... values) { set("club_id", values); return this; }

        /** 1 to 200 characters, no NUL. */
        public UserNotificationsFilters channel(String... values) { set("channel", values); return this; }
    }

    /** A version of a user. */
    public static final class UserStreamBody extends Body {
        UserStreamBody(Map<String, ?> members) { super(members); }

        /** The value of {@code after} in the next request. */
        public String version() { return required("version", TEXT); }

        public boolean changed() { return required("changed", BOOLEAN); }

        /** The body of GET /v1/users/{user_id}, after a change. */
        public UserBody user() { return optional("user", body(UserBody::new)); }

        /** The body of GET /v1/users/{user_id}/preferences, after a change. */
        public PreferencesBody preferences() { return optional("preferences", body(PreferencesBody::new)); }
    }

    /** The suppression of the user's e-mail address: no e-mail is sent to it. */
    public static final class UserSuppression extends Body {
        UserSuppression(Map<String, ?> members) { super(members); }

        /** As in outcomes: bounced_permanent or complained. */
        public String reason() { return required("reason", TEXT); }

        public String expiresAt() { return required("expires_at", TEXT); }

        public RowBody row() { return required("row", body(RowBody::new)); }
    }

    /** Users by id. */
    public static final class UsersBody extends Body {
        UsersBody(Map<String, ?> members) { super(members); }

        public List<ListedUser> rows() { return required("rows", listOf(body(ListedUser::new))); }

        /** Whether there are more users. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** An endpoint, without its secret. */
    public static final class WebhookBody extends Body {
        WebhookBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        public String url() { return required("url", TEXT); }

        /** Empty: every type. */
        public List<String> eventTypes() { return required("event_types", listOf(TEXT)); }

        public String description() { return required("description", TEXT); }

        /** The most messages with events of a request: 1 to 1,000. With more than one, the body is a list of them. */
        public long maxCount() { return required("max_count", INTEGER); }

        /** The most bytes of a request with several messages: 1,000 to 1,000,000. A larger message goes alone. */
        public long maxBytes() { return required("max_bytes", INTEGER); }

        /** The most seconds that a message waits for others of its request: 1, or 60 to 3,600. */
        public long maxWaitS() { return required("max_wait_s", INTEGER); }

        /** Whether a message waits until those before it with the same {@code key} are accepted or given up. */
        public boolean ordered() { return required("ordered", BOOLEAN); }

        /** The most concurrent requests with events: 1 to 32. */
        public long maxConcurrency() { return required("max_concurrency", INTEGER); }

        /** The most messages with events a second: 1 to 10,000; null: no limit. */
        public Long ratePerS() { return optional("rate_per_s", INTEGER); }

        /** The form of events of systems; those of sends have the form {@code masscomm}. */
        public String format() { return required("format", TEXT); }

        /** The role with which messages are sent to a queue or an event bus; null: the URL is a server's. */
        public String roleArn() { return optional("role_arn", TEXT); }

        /** The external id that the trust policy of the role must require. */
        public String externalId() { return optional("external_id", TEXT); }

        /** The user of the tenant who gets an e-mail when masscomm disables it; null: no e-mail is sent. */
        public Long contactUserId() { return optional("contact_user_id", INTEGER); }

        public boolean enabled() { return required("enabled", BOOLEAN); }

        /** Why masscomm disabled it; null if it is enabled, or disabled by a request. */
        public String disabledReason() { return optional("disabled_reason", TEXT); }

        /** The first failed attempt since the last successful one. */
        public String failingSince() { return optional("failing_since", TEXT); }

        /** The time until which the previous secret also signs. */
        public String previousSecretUntil() { return optional("previous_secret_until", TEXT); }

        /** Null: requests have their signature only. */
        public AuthenticationBody authentication() { return optional("authentication", body(AuthenticationBody::new)); }

        public String createdAt() { return required("created_at", TEXT); }
    }

    /** Attempts of a bucket. */
    public static final class WebhookCountRow extends Body {
        WebhookCountRow(Map<String, ?> members) { super(members); }

        public String bucket() { return required("bucket", TEXT); }

        /** The tenant of the events. */
        public long clubId() { return required("club_id", INTEGER); }

        public String type() { return required("type", TEXT); }

        public String status() { return required("status", TEXT); }

        public long countTotal() { return required("count_total", INTEGER); }

        /** The mean duration of the attempts. */
        public long durationMsMean() { return required("duration_ms_mean", INTEGER); }
    }

    /** A message that is not attempted any more. */
    public static final class WebhookDeadLetterBody extends Body {
        WebhookDeadLetterBody(Map<String, ?> members) { super(members); }

        public String id() { return required("id", TEXT); }

        /** The value of the header webhook-id of a request with this message only. */
        public String messageId() { return required("message_id", TEXT); }

        public String eventId() { return required("event_id", TEXT); }

        public String type() { return required("type", TEXT); }

        public long clubId() { return required("club_id", INTEGER); }

        /** The data of the event. */
        public Map<String, Object> data() { return required("data", mapOf(ANY)); }

        public String occurredAt() { return required("occurred_at", TEXT); }

        /** The time at which it became a dead letter. */
        public String at() { return required("at", TEXT); }

        public String reason() { return required("reason", TEXT); }

        public long attempts() { return required("attempts", INTEGER); }

        /** The status of the last response; null if there was none. */
        public Long status() { return optional("status", INTEGER); }
    }

    /** Dead letters, the oldest first. */
    public static final class WebhookDeadLettersBody extends Body {
        WebhookDeadLettersBody(Map<String, ?> members) { super(members); }

        public List<WebhookDeadLetterBody> rows() { return required("rows", listOf(body(WebhookDeadLetterBody::new))); }

        /** Whether there may be more. A page may have fewer rows than its limit. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /** The value of {@code after} for the next poll; null if nothing was read. */
        public String last() { return optional("last", TEXT); }
    }

    /** The parameters of {@link Client#webhookDeadLetters}. */
    public static final class WebhookDeadLettersFilters extends Body {
        public WebhookDeadLettersFilters() { this(Map.of()); }

        WebhookDeadLettersFilters(Map<String, ?> members) { super(members); }

        /** The id or the time after which the list begins. */
        public WebhookDeadLettersFilters after(String value) { set("after", value); return this; }

        /** The id of the last one that may be listed, or a time. */
        public WebhookDeadLettersFilters upTo(String value) { set("up_to", value); return this; }

        /** The type of the events. */
        public WebhookDeadLettersFilters type(String value) { set("type", value); return this; }

        /** The maximum number of rows. */
        public WebhookDeadLettersFilters limit(long value) { set("limit", value); return this; }
    }

    /** The parameters of {@link Client#webhookDeliveries}. */
    public static final class WebhookDeliveriesFilters extends Body {
        public WebhookDeliveriesFilters() { this(Map.of()); }

        WebhookDeliveriesFilters(Map<String, ?> members) { super(members); }

        /** The maximum number of rows. */
        public WebhookDeliveriesFilters limit(long value) { set("limit", value); return this; }
    }

    /** Attempts to send messages to an endpoint, the latest first. */
    public static final class WebhookLogBody extends Body {
        WebhookLogBody(Map<String, ?> members) { super(members); }

        public List<WebhookLogBodyRow> rows() { return required("rows", listOf(body(WebhookLogBodyRow::new))); }

        /** Whether there are more rows. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /** Earlier attempts are deleted; null: none is. */
        public String keptSince() { return optional("kept_since", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** An attempt to send a message. */
    public static final class WebhookLogBodyRow extends Body {
        WebhookLogBodyRow(Map<String, ?> members) { super(members); }

        public String at() { return required("at", TEXT); }

        /** The {@code webhook-id} of a request with this message only. */
        public String messageId() { return required("message_id", TEXT); }

        public String eventId() { return required("event_id", TEXT); }

        public String type() { return required("type", TEXT); }

        /** The tenant of the event. */
        public long clubId() { return required("club_id", INTEGER); }

        public String status() { return required("status", TEXT); }

        /** The number of the attempt, from 1. */
        public long attempt() { return required("attempt", INTEGER); }

        /** The status of the response; null if there was none. */
        public Long httpStatus() { return optional("http_status", INTEGER); }

        public long durationMs() { return required("duration_ms", INTEGER); }

        /** Why there was no response, or no attempt. */
        public String error() { return optional("error", TEXT); }
    }

    /** The parameters of {@link Client#webhookLog}. */
    public static final class WebhookLogFilters extends Body {
        public WebhookLogFilters() { this(Map.of()); }

        WebhookLogFilters(Map<String, ?> members) { super(members); }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public WebhookLogFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public WebhookLogFilters end(String value) { set("end", value); return this; }

        /** 1 to 200 characters, no NUL. */
        public WebhookLogFilters type(String... values) { set("type", values); return this; }

        /** one of delivered, retried, given_up. */
        public WebhookLogFilters status(String... values) { set("status", values); return this; }

        /** The maximum number of rows. */
        public WebhookLogFilters limit(long value) { set("limit", value); return this; }
    }

    /** Counts of the attempts to send messages to an endpoint. */
    public static final class WebhookMetricsBody extends Body {
        WebhookMetricsBody(Map<String, ?> members) { super(members); }

        public String granularity() { return required("granularity", TEXT); }

        public List<WebhookCountRow> rows() { return required("rows", listOf(body(WebhookCountRow::new))); }

        /** Whether there are more rows. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }

        /** Counts of earlier buckets are deleted; null: none is. */
        public String keptSince() { return optional("kept_since", TEXT); }

        public String generatedAt() { return required("generated_at", TEXT); }
    }

    /** The parameters of {@link Client#webhookMetrics}. */
    public static final class WebhookMetricsFilters extends Body {
        public WebhookMetricsFilters() { this(Map.of()); }

        WebhookMetricsFilters(Map<String, ?> members) { super(members); }

        /** one of minute, hour, day. */
        public WebhookMetricsFilters granularity(String value) { set("granularity", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public WebhookMetricsFilters start(String value) { set("start", value); return this; }

        /** an RFC 3339 time with an offset, from 1970 to 2199, e.g. 2026-11-21T08:00:00Z (a + in a URL is written %2B). */
        public WebhookMetricsFilters end(String value) { set("end", value); return this; }

        /** 1 to 200 characters, no NUL. */
        public WebhookMetricsFilters type(String... values) { set("type", values); return this; }

        /** one of delivered, retried, given_up. */
        public WebhookMetricsFilters status(String... values) { set("status", values); return this; }

        /** The maximum number of rows. */
        public WebhookMetricsFilters limit(long value) { set("limit", value); return this; }
    }

    /** Endpoints by club, in the order of their creation. */
    public static final class WebhooksBody extends Body {
        WebhooksBody(Map<String, ?> members) { super(members); }

        public List<WebhookBody> rows() { return required("rows", listOf(body(WebhookBody::new))); }

        /** Whether there are more clubs. */
        public boolean truncated() { return required("truncated", BOOLEAN); }

        public String nextCursor() { return optional("next_cursor", TEXT); }
    }

    /** The parameters of {@link Client#webhooks}. */
    public static final class WebhooksFilters extends Body {
        public WebhooksFilters() { this(Map.of()); }

        WebhooksFilters(Map<String, ?> members) { super(members); }

        /** a whole number of 64 bits. */
        public WebhooksFilters clubId(long... values) { set("club_id", values); return this; }
    }
}
