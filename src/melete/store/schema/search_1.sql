-- The search index over all messages, remade from the logs at any time.

CREATE TABLE sources (
    session TEXT PRIMARY KEY,
    inode   INTEGER NOT NULL,
    offset  INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    mark    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE owners (
    session TEXT PRIMARY KEY,
    owner   TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE entries (
    id      INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    role    TEXT NOT NULL,
    at      REAL NOT NULL,
    text    TEXT NOT NULL,
    UNIQUE (session, seq)
);

CREATE VIRTUAL TABLE words USING fts5 (
    text,
    content = 'entries',
    content_rowid = 'id',
    tokenize = 'porter unicode61'
);

CREATE TRIGGER entries_in AFTER INSERT ON entries BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text);
END;

CREATE TRIGGER entries_out AFTER DELETE ON entries BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
END;
