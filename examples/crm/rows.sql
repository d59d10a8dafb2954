-- Some people, choices, handsets and texts for the tables of schema.sql. Running it again changes nothing.

INSERT INTO crm.person (person_no, organisation, given_name, family_name, contact, language, zone, plan, joined_on, balance)
VALUES
    (1, 1, 'Ada', 'Byron', '{"mail": {"address": "ada@example.org"}, "mobile": "+4315550100"}', 'de-AT', 'Europe/Vienna', 'gold', '2024-10-04', 12.50),
    (2, 1, 'Blaise', 'Pascal', '{"mail": {"address": "blaise@example.org"}}', 'fr', 'Europe/Paris', NULL, '2025-01-31', 0),
    (3, 1, 'Carl', 'Gauss', '{}', NULL, NULL, NULL, NULL, NULL)
ON CONFLICT DO NOTHING;

-- Blaise wants no push, and Carl no news.
INSERT INTO crm.contact_choice (person_uuid, person_no, wants_push, topics)
SELECT person_uuid, person_no, person_no <> 2, CASE person_no WHEN 3 THEN '{"news": false}'::jsonb ELSE '{}' END
  FROM crm.person
 WHERE person_no IN (2, 3)
ON CONFLICT DO NOTHING;

INSERT INTO crm.handset (handset_no, owner_no, kind, push_token)
VALUES (11, 1, 'ios', 'token-of-ada'), (12, 2, 'android', 'token-of-blaise'), (13, 3, 'android', 'token-of-carl')
ON CONFLICT DO NOTHING;

INSERT INTO crm.wording (wording_no, occasion, medium, lang, subject, message)
VALUES
    (1, 'news', 'app', 'de', '{{ data.headline }}', 'Hallo {{ user.first_name }}, dein Tarif: {{ user.attributes.plan }}.'),
    (2, 'news', 'app', 'en', '{{ data.headline }}', 'Hello {{ user.first_name }}, your plan: {{ user.attributes.plan }}.')
ON CONFLICT DO NOTHING;
