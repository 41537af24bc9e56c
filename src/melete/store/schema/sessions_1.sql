-- Listings of sessions, remade from the logs at any time.

CREATE TABLE sources (
    session TEXT PRIMARY KEY,
    inode   INTEGER NOT NULL,
    offset  INTEGER NOT NULL, -- bytes of the log that these tables hold
    seq     INTEGER NOT NULL, -- the last fact that they hold
    mark    INTEGER NOT NULL  -- checksum of the bytes before: another one means another log
) WITHOUT ROWID;

CREATE TABLE sessions (
    id          TEXT PRIMARY KEY,
    owner       TEXT NOT NULL DEFAULT '',
    source      TEXT NOT NULL DEFAULT '',
    title       TEXT NOT NULL DEFAULT '',
    cwd         TEXT NOT NULL DEFAULT '',
    model       TEXT NOT NULL DEFAULT '',
    parent      TEXT NOT NULL DEFAULT '',
    started     REAL NOT NULL,          -- seconds since 1970
    updated     REAL NOT NULL,
    messages    INTEGER NOT NULL DEFAULT 0,
    tool_calls  INTEGER NOT NULL DEFAULT 0,
    input       INTEGER NOT NULL DEFAULT 0,
    output      INTEGER NOT NULL DEFAULT 0,
    cache_read  INTEGER NOT NULL DEFAULT 0,
    cache_write INTEGER NOT NULL DEFAULT 0,
    reasoning   INTEGER NOT NULL DEFAULT 0,
    cost_usd    REAL,                   -- NULL: no price is known
    stop        TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

CREATE INDEX sessions_updated ON sessions (updated DESC);
CREATE INDEX sessions_title ON sessions (title);

CREATE TABLE messages (
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    role    TEXT NOT NULL,
    length  INTEGER NOT NULL, -- characters
    at      REAL NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE usage (
    session     TEXT NOT NULL,
    seq         INTEGER NOT NULL,
    role        TEXT NOT NULL,
    model       TEXT NOT NULL,
    provider    TEXT NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    reasoning   INTEGER NOT NULL,
    usd         REAL,
    at          REAL NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
