-- +goose Up
-- Times are milliseconds since 1970, UTC. The quantities of rows are columns that are added when the database is
-- opened, from the catalog: whole numbers, NULL where absent.
CREATE TABLE devices (
	id INTEGER PRIMARY KEY,
	node TEXT NOT NULL,
	uuid TEXT NOT NULL, -- empty: the machine itself
	name TEXT NOT NULL DEFAULT '',
	vendor TEXT NOT NULL DEFAULT '',
	place INTEGER NOT NULL DEFAULT 0,
	kind TEXT NOT NULL DEFAULT '',
	UNIQUE (node, uuid)
);

-- Readings. The state is NULL for "ok" and of machines; doubtful has the names of columns, with commas.
CREATE TABLE device_raw (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	doubtful TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;
CREATE TABLE machine_raw (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	doubtful TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;

-- Spans. A quantity is its mean where least and most are the same, or else a BLOB of three numbers, see writer.pack.
-- Counts are those that are not the number of readings: "8,power_draw=7,thermal_gpu=9", of which the first is that of all others.
CREATE TABLE device_1m (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	readings INTEGER,
	counts TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;
CREATE TABLE machine_1m (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	readings INTEGER,
	counts TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;
CREATE TABLE device_15m (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	readings INTEGER,
	counts TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;
CREATE TABLE machine_15m (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	readings INTEGER,
	counts TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;
CREATE TABLE device_6h (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	readings INTEGER,
	counts TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;
CREATE TABLE machine_6h (
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	state TEXT,
	readings INTEGER,
	counts TEXT,
	PRIMARY KEY (device, time)
) WITHOUT ROWID;

-- Spans whose row has to be made.
CREATE TABLE unsettled (
	tier TEXT NOT NULL,
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	PRIMARY KEY (tier, device, time)
) WITHOUT ROWID;

-- Snapshots, compressed with zstd. The dictionary is the key frame of the same device and quarter of an hour.
CREATE TABLE frames (
	id INTEGER PRIMARY KEY,
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	record BLOB NOT NULL,
	UNIQUE (device, time)
);
CREATE TABLE key_frames (
	id INTEGER PRIMARY KEY,
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	record BLOB NOT NULL,
	UNIQUE (device, time)
);

-- Texts of sessions and causes, each once. The hash is FNV-1a; used is the day after the last on which it is, since 1970.
CREATE TABLE texts (
	id INTEGER PRIMARY KEY,
	hash INTEGER NOT NULL,
	used INTEGER NOT NULL,
	text TEXT NOT NULL
);
CREATE INDEX texts_hash ON texts (hash);
-- An empty text is 0, which takes no room.
INSERT INTO texts VALUES (0, -3750763034362895579, 9223372036854775807, '');

-- Durations are nanoseconds. A start of 0 is not known. What is a number though it is a text is an ID of texts.
CREATE TABLE sessions (
	id INTEGER PRIMARY KEY,
	device INTEGER NOT NULL,
	boot INTEGER NOT NULL,
	pid INTEGER NOT NULL,
	started INTEGER NOT NULL,
	begun INTEGER NOT NULL,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	user INTEGER NOT NULL,
	name INTEGER NOT NULL,
	program INTEGER NOT NULL,
	command INTEGER NOT NULL,
	container INTEGER NOT NULL,
	image INTEGER NOT NULL,
	pod INTEGER NOT NULL,
	unit INTEGER NOT NULL,
	job INTEGER NOT NULL,
	type INTEGER NOT NULL,
	outcome TEXT NOT NULL,
	seen INTEGER NOT NULL,
	peak_memory INTEGER,
	peak_memory_quality INTEGER NOT NULL,
	memory_seconds REAL,
	memory_known INTEGER NOT NULL,
	sm_seconds REAL,
	sm_known INTEGER NOT NULL,
	joules REAL,
	joules_known INTEGER NOT NULL,
	joules_method INTEGER NOT NULL,
	busy INTEGER NOT NULL,
	accounted INTEGER NOT NULL,
	UNIQUE (device, boot, pid, started, begun)
);
CREATE INDEX sessions_until ON sessions (until, since);
CREATE INDEX sessions_open ON sessions (device) WHERE outcome = 'open';

CREATE TABLE causes (
	id INTEGER PRIMARY KEY,
	device INTEGER NOT NULL,
	cause INTEGER NOT NULL,
	since INTEGER NOT NULL,
	until INTEGER NOT NULL,
	open INTEGER NOT NULL,
	kind INTEGER NOT NULL,
	kind_case INTEGER NOT NULL,
	sentence TEXT NOT NULL,
	short INTEGER NOT NULL,
	confidence REAL,
	who INTEGER NOT NULL,
	UNIQUE (device, cause, since)
);
CREATE INDEX causes_until ON causes (until, since);
CREATE INDEX causes_open ON causes (device) WHERE open;

-- The hash is the first eight bytes of the SHA-256 of the ID.
CREATE TABLE events (
	number INTEGER PRIMARY KEY,
	hash INTEGER NOT NULL UNIQUE,
	id TEXT NOT NULL,
	device INTEGER NOT NULL,
	time INTEGER NOT NULL,
	kind TEXT NOT NULL,
	severity TEXT NOT NULL,
	text TEXT NOT NULL,
	data BLOB
);
CREATE INDEX events_time ON events (time);
CREATE INDEX events_info ON events (time) WHERE severity = 'info';

CREATE TABLE documents (name TEXT PRIMARY KEY, text BLOB NOT NULL);
