-- +goose Up
-- What was delivered from elsewhere takes the place of what has no larger ordinal; 0: it was not delivered.
ALTER TABLE devices ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;
ALTER TABLE causes ADD COLUMN ordinal INTEGER NOT NULL DEFAULT 0;

-- Parcels that are to be delivered elsewhere. No number comes again. Parts are those of package store.
CREATE TABLE outbox (
	number INTEGER PRIMARY KEY AUTOINCREMENT,
	node TEXT NOT NULL,
	parts INTEGER NOT NULL,
	data BLOB NOT NULL
);
