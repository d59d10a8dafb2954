insert into staging_attempts (attempt) values (nextval('staging_attempt_numbers')) returning attempt, counted_at
