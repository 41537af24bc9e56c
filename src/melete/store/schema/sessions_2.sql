-- Listings and statistics of sessions, remade from the logs at any time. What a fork copied has `copied` = 1 among the messages,
-- and stands in no other table but the fork's own row: it was paid for, run and counted where it happened.

DROP TABLE sessions;
DROP TABLE messages;
DROP TABLE usage;
DELETE FROM sources; -- so that every log is read again

CREATE TABLE sessions (
    id              TEXT PRIMARY KEY,
    owner           TEXT NOT NULL,
    source          TEXT NOT NULL,
    title           TEXT NOT NULL,
    cwd             TEXT NOT NULL,
    about           TEXT NOT NULL, -- JSON object
    parent          TEXT NOT NULL,
    forked_from     TEXT NOT NULL,
    forked_at       INTEGER NOT NULL,
    copied          INTEGER NOT NULL, -- facts up to this number are copies
    root            TEXT NOT NULL, -- the first session of the chain
    started         REAL NOT NULL, -- seconds since 1970
    updated         REAL NOT NULL, -- the latest time of any fact
    ended           REAL, -- NULL: no run has ended, or one goes on
    stop            TEXT NOT NULL, -- why the last run ended; empty while it has no end
    model           TEXT NOT NULL,
    model_settings  TEXT NOT NULL, -- JSON object
    provider        TEXT NOT NULL,
    base_url        TEXT NOT NULL,
    billing         TEXT NOT NULL, -- api, local, unknown
    prompt_mark     TEXT NOT NULL, -- checksum of the system blocks in force
    prompt_size     INTEGER NOT NULL, -- their bytes
    messages        INTEGER NOT NULL,
    steps           INTEGER NOT NULL,
    runs            INTEGER NOT NULL,
    tool_calls      INTEGER NOT NULL,
    errors          INTEGER NOT NULL, -- calls and runs that failed
    requests        INTEGER NOT NULL,
    input           INTEGER NOT NULL,
    output          INTEGER NOT NULL,
    cache_read      INTEGER NOT NULL,
    cache_write     INTEGER NOT NULL,
    reasoning       INTEGER NOT NULL,
    side_tokens     INTEGER NOT NULL, -- of these, what was not for the conversation itself
    side_usd        REAL NOT NULL,
    cost_usd        REAL, -- NULL: no price is known
    estimated_usd   REAL,
    actual_usd      REAL, -- what providers have told themselves
    unpriced        INTEGER NOT NULL, -- requests without a known price
    told            INTEGER NOT NULL, -- requests whose price the provider told
    cost_status     TEXT NOT NULL,
    cost_source     TEXT NOT NULL,
    pricing_version TEXT NOT NULL, -- the day of the price list
    fold            TEXT NOT NULL -- JSON: where reading goes on
) WITHOUT ROWID;

CREATE INDEX sessions_updated ON sessions (updated);
CREATE INDEX sessions_owner ON sessions (owner, updated);
CREATE INDEX sessions_source ON sessions (source, updated);
CREATE INDEX sessions_title ON sessions (title);
CREATE INDEX sessions_cwd ON sessions (cwd);
CREATE INDEX sessions_root ON sessions (root);

CREATE TABLE messages (
    session         TEXT NOT NULL,
    seq             INTEGER NOT NULL,
    step            INTEGER NOT NULL, -- the step that it belongs to or comes after; 0 before the first
    role            TEXT NOT NULL,
    origin          TEXT NOT NULL, -- who put it there, where that is known: person, runtime, child, schedule, import
    call            TEXT NOT NULL, -- of a result: the call that it answers
    tool            TEXT NOT NULL, -- of a result: the tool
    calls           TEXT NOT NULL, -- of a reply: the tools that it calls, a space between two
    outcome         TEXT NOT NULL, -- of a result
    at              REAL NOT NULL,
    length          INTEGER NOT NULL, -- characters
    tokens          INTEGER NOT NULL, -- of a reply: what the provider counted as its output
    stop            TEXT NOT NULL, -- of a reply: why it ended
    thinking        INTEGER NOT NULL, -- characters of readable reasoning
    thinking_parts  INTEGER NOT NULL,
    sealed          INTEGER NOT NULL, -- 1: signed or encrypted reasoning came along
    model           TEXT NOT NULL,
    copied          INTEGER NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE usage (
    session             TEXT NOT NULL,
    seq                 INTEGER NOT NULL,
    role                TEXT NOT NULL, -- main, or the kind of side work
    model               TEXT NOT NULL,
    provider            TEXT NOT NULL,
    input               INTEGER NOT NULL,
    output              INTEGER NOT NULL,
    cache_read          INTEGER NOT NULL,
    cache_write         INTEGER NOT NULL,
    reasoning           INTEGER NOT NULL,
    usd                 REAL, -- NULL: the price is not known
    source              TEXT NOT NULL, -- of the price
    told                INTEGER NOT NULL, -- 1: the provider told the price
    seconds             REAL NOT NULL, -- of the reply, 0 where that is not known
    first_token_seconds REAL NOT NULL,
    discarded           INTEGER NOT NULL, -- 1: the reply was thrown away before another try
    at                  REAL NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE tools (
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    step    INTEGER NOT NULL,
    name    TEXT NOT NULL,
    outcome TEXT NOT NULL,
    seconds REAL NOT NULL,
    length  INTEGER NOT NULL, -- characters of the result as the model reads it
    spilled INTEGER NOT NULL, -- 1: the whole of it stands in a file
    at      REAL NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE runs (
    session  TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    run      TEXT NOT NULL,
    started  REAL NOT NULL,
    ended    REAL, -- NULL: it goes on, or was cut off
    stop     TEXT NOT NULL,
    error    TEXT NOT NULL, -- the kind of error that ended it
    steps    INTEGER NOT NULL,
    seconds  REAL NOT NULL,
    surface  TEXT NOT NULL,
    provider TEXT NOT NULL,
    model    TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;

CREATE TABLE retries (
    session TEXT NOT NULL,
    seq     INTEGER NOT NULL,
    cause   TEXT NOT NULL,
    model   TEXT NOT NULL, -- the one that is asked next
    at      REAL NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
