-- How often a conversation was shortened.

ALTER TABLE sessions ADD COLUMN compactions INTEGER NOT NULL DEFAULT 0;
DELETE FROM sessions;
DELETE FROM messages;
DELETE FROM usage;
DELETE FROM tools;
DELETE FROM runs;
DELETE FROM retries;
DELETE FROM sources; -- so that every log is read again
