-- What was delivered by a recorder of a fleet takes the place of what has no larger ordinal; 0: it was not delivered.

-- +goose Up
ALTER TABLE devices ADD COLUMN ordinal bigint NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN ordinal bigint NOT NULL DEFAULT 0;
ALTER TABLE causes ADD COLUMN ordinal bigint NOT NULL DEFAULT 0;
