-- The search index over all messages, remade from the logs at any time. Messages stand in blocks of eight neighbours of one
-- session: a block is the unit of the index of words, and what a message's neighbours say counts for it as well.

DROP TABLE words;
DROP TABLE entries;
DROP TABLE owners;
DELETE FROM sources; -- so that every log is read again

CREATE TABLE made (
    analysis INTEGER NOT NULL -- the number of the analysis of texts that these words come from
);
INSERT INTO made VALUES (1);

CREATE TABLE sessions (
    number   INTEGER PRIMARY KEY,
    id       TEXT NOT NULL UNIQUE,
    owner    TEXT NOT NULL DEFAULT '',
    source   TEXT NOT NULL DEFAULT '',
    cwd      TEXT NOT NULL DEFAULT '',
    models   TEXT NOT NULL DEFAULT '', -- each that was used, a line end before and behind it, with and without its provider
    origin   TEXT NOT NULL DEFAULT '', -- the session that it was forked from, or its parent
    copied   INTEGER NOT NULL DEFAULT 0, -- facts up to this number are copies
    name     TEXT NOT NULL DEFAULT '', -- what an import called it
    messages INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX sessions_origin ON sessions (origin);

CREATE TABLE blocks (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    place   INTEGER NOT NULL, -- 0 for the session's first eight messages, 1 for the next
    first   REAL NOT NULL,    -- the earliest and the latest time in it, seconds since 1970
    last    REAL NOT NULL,
    UNIQUE (session, place)
);

CREATE INDEX blocks_last ON blocks (last);

CREATE TABLE heads (
    block   INTEGER PRIMARY KEY,
    signs   BLOB NOT NULL, -- for each word four bytes: which messages have it, a checksum of the word
    entries BLOB NOT NULL  -- what is known of each message
);

CREATE TABLE texts (
    block INTEGER PRIMARY KEY,
    body  BLOB NOT NULL -- compressed
);

CREATE VIRTUAL TABLE words USING fts5 (
    terms, -- checksums of words: what a deleted session leaves in here until parts are merged says nothing
    content = '',
    detail = none,
    columnsize = 0,
    tokenize = 'ascii'
);

INSERT INTO words (words, rank) VALUES ('hashsize', 8388608);
