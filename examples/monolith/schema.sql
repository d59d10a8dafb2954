-- The monolith's own tables. Running it again changes nothing.

CREATE TABLE IF NOT EXISTS clubs (
    id   bigint PRIMARY KEY,
    name text NOT NULL
);

CREATE TABLE IF NOT EXISTS users (
    id         bigint PRIMARY KEY,
    club_id    bigint NOT NULL REFERENCES clubs (id),
    first_name text NOT NULL,
    last_name  text NOT NULL,
    email      text,
    phone      text,
    locale     text NOT NULL DEFAULT 'en',   -- BCP 47
    time_zone  text NOT NULL DEFAULT 'UTC',  -- IANA
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS users_club_id ON users (club_id, id);

-- A user without a row here has chosen nothing: everything is allowed.
CREATE TABLE IF NOT EXISTS user_settings (
    user_id     bigint PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    club_id     bigint NOT NULL REFERENCES clubs (id),
    channels    jsonb NOT NULL DEFAULT '{}',  -- {"push": true, "email": false}; an absent channel is allowed
    categories  jsonb NOT NULL DEFAULT '{}',  -- {"news": {"push": false}} or, for every channel, {"news": false}
    quiet_hours jsonb,                        -- {"start": "22:00", "end": "07:00"} in the user's time zone; null: none
    updated_at  timestamptz NOT NULL DEFAULT now()
);
-- The version of the newest change through masscomm that is applied to the row (apply_preferences.py).
ALTER TABLE user_settings ADD COLUMN IF NOT EXISTS preference_version bigint NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS devices (
    id         bigint PRIMARY KEY,
    user_id    bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    platform   text NOT NULL CHECK (platform IN ('gcm', 'apns')),
    token      text NOT NULL,
    active     boolean NOT NULL DEFAULT true,
    updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS devices_user_id ON devices (user_id);

-- Placeholders are Jinja's: {{ user.first_name }}, {{ user.last_name }}, {{ club_id }}, {{ data.anything }} of the send.
-- The title is an e-mail's subject. A template of a club comes before the one for every club.
CREATE TABLE IF NOT EXISTS notification_templates (
    id         bigint PRIMARY KEY,
    club_id    bigint REFERENCES clubs (id),  -- null: every club
    type       text NOT NULL,
    channel    text NOT NULL CHECK (channel IN ('push', 'email', 'sms')),
    locale     text NOT NULL,
    title      text NOT NULL,
    body       text NOT NULL,
    html       text,
    version    int NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE NULLS NOT DISTINCT (club_id, type, channel, locale)
);
-- The deep link of a push: an address with https, or with the scheme of an app.
ALTER TABLE notification_templates ADD COLUMN IF NOT EXISTS url text;

-- Events for the endpoints that subscribe to them (docs/event-sources.md#an-outbox). A transaction inserts a row for each event that it causes. Rows may be
-- deleted at any time after they are committed.
CREATE TABLE IF NOT EXISTS event_outbox (
    club_id     bigint NOT NULL REFERENCES clubs (id),
    event_id    text NOT NULL CHECK (length(event_id) BETWEEN 1 AND 128),
    type        text NOT NULL,
    unit        text,  -- the path of a unit, such as 100/7
    key         text,  -- what the event is about, such as the id of an order
    occurred_at timestamptz NOT NULL DEFAULT now(),
    data        jsonb NOT NULL CHECK (jsonb_typeof(data) = 'object' AND octet_length(data::text) <= 65536),
    PRIMARY KEY (club_id, event_id)
);

-- Change data capture needs the whole old row: of an update and of a delete.
ALTER TABLE users REPLICA IDENTITY FULL;
ALTER TABLE user_settings REPLICA IDENTITY FULL;
ALTER TABLE devices REPLICA IDENTITY FULL;
ALTER TABLE notification_templates REPLICA IDENTITY FULL;
