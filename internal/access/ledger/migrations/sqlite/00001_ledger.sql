-- +goose Up
-- The accounts, sessions and tokens, each a document.
CREATE TABLE items (
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    name TEXT, -- unique among its kind; NULL: it has none
    owner TEXT NOT NULL DEFAULT '', -- the item that it belongs to and ends with
    expires INTEGER NOT NULL DEFAULT 0, -- microseconds since 1970; 0: never
    version INTEGER NOT NULL, -- counts its changes, from 1
    doc TEXT NOT NULL,
    PRIMARY KEY (kind, id),
    UNIQUE (kind, name)
) WITHOUT ROWID, STRICT;
CREATE INDEX items_by_id ON items (id);
CREATE INDEX items_by_owner ON items (owner) WHERE owner <> '';
CREATE INDEX items_by_end ON items (expires) WHERE expires > 0;

-- Who did what. Rows are added and, once they are old, removed from the beginning; none is changed.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY, -- from 1, without a gap
    time INTEGER NOT NULL, -- microseconds since 1970
    action TEXT NOT NULL,
    principal TEXT NOT NULL,
    target TEXT NOT NULL,
    node TEXT NOT NULL,
    result TEXT NOT NULL,
    doc TEXT NOT NULL, -- the whole entry, as it was hashed
    hash TEXT NOT NULL -- of the hash before and doc
) STRICT;
CREATE INDEX audit_by_time ON audit (time);

-- The revision counts changes of items. The head is the number and the hash of the newest audit entry, and the anchor of the last one
-- that was removed.
CREATE TABLE heads (
    name TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    text TEXT NOT NULL
) WITHOUT ROWID, STRICT;
INSERT INTO heads VALUES ('revision', 0, ''), ('head', 0, ''), ('anchor', 0, '');

-- +goose Down
DROP TABLE heads;
DROP TABLE audit;
DROP TABLE items;
