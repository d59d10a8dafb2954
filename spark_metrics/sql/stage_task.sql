-- The lock prevents a merge of the attempt before the task has ended: rows that a second run staged later would count
-- twice.
insert into staging_tasks select attempt, %s, %s from staging_attempts where attempt = %s for key share
