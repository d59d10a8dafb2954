-- Tables as Rails, Devise and an application of its own create them: no foreign keys, times without a zone, settings in JSON.
CREATE TABLE users (
    id bigserial PRIMARY KEY, email varchar NOT NULL DEFAULT '', encrypted_password varchar NOT NULL DEFAULT '',
    reset_password_token varchar, sign_in_count integer NOT NULL DEFAULT 0, confirmation_token varchar, unconfirmed_email varchar,
    company_id bigint, name varchar, mobile_number varchar, locale varchar DEFAULT 'en', time_zone varchar DEFAULT 'UTC',
    newsletter boolean NOT NULL DEFAULT false, created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL
);
CREATE TABLE companies (id bigserial PRIMARY KEY, name varchar);
CREATE TABLE devices (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL, os varchar, push_token varchar, enabled boolean NOT NULL DEFAULT true,
    created_at timestamp(6) NOT NULL, updated_at timestamp(6) NOT NULL
);
CREATE TABLE api_tokens (id bigserial PRIMARY KEY, user_id bigint NOT NULL, token varchar);
CREATE TABLE user_preferences (
    id bigserial PRIMARY KEY, user_id bigint NOT NULL UNIQUE, settings jsonb NOT NULL DEFAULT '{}',
    quiet_start time, quiet_end time, updated_at timestamp(6) NOT NULL
);
CREATE TABLE message_templates (
    id bigserial PRIMARY KEY, event varchar NOT NULL, channel integer NOT NULL DEFAULT 0, locale varchar NOT NULL, subject varchar NOT NULL,
    body text NOT NULL
);
INSERT INTO companies VALUES (1, 'Engines');
INSERT INTO users (email, company_id, name, newsletter, created_at, updated_at) VALUES
    ('ada@example.org', 1, 'Ada Byron', true, now(), now()), ('bob@example.org', 1, 'Bob', false, now(), now());
INSERT INTO devices (user_id, os, push_token, created_at, updated_at) VALUES (1, 'ios', 't', now(), now()), (2, 'Android', 'u', now(), now());
INSERT INTO user_preferences (user_id, settings, updated_at) VALUES (1, '{"theme": "dark", "notifications": {"push": true}}', now());
