-- What is kept of the past. Columns for the catalog's quantities are added when the database is opened.

-- +goose Up
CREATE TABLE devices (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node   text COLLATE "C" NOT NULL,
  uuid   text COLLATE "C" NOT NULL, -- empty: the machine itself
  name   text NOT NULL DEFAULT '',
  vendor text NOT NULL DEFAULT '',
  number bigint NOT NULL DEFAULT 0,
  kind   text NOT NULL DEFAULT '',
  UNIQUE (node, uuid)
);

-- Rows of devices, by day and by month. A quantity is a whole number of its column's steps; without it: absent.
CREATE TABLE device_raw (
  device   bigint NOT NULL,
  time     timestamptz NOT NULL,
  state    text,
  doubtful text, -- names of columns
  PRIMARY KEY (device, time)
) PARTITION BY RANGE (time);

CREATE TABLE device_1m (
  device   bigint NOT NULL,
  time     timestamptz NOT NULL,
  state    text,
  readings bigint NOT NULL,
  PRIMARY KEY (device, time)
) PARTITION BY RANGE (time);
CREATE INDEX device_1m_time ON device_1m USING brin (time);

CREATE TABLE device_15m (LIKE device_1m, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE INDEX device_15m_time ON device_15m USING brin (time);
CREATE TABLE device_6h (LIKE device_1m, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE INDEX device_6h_time ON device_6h USING brin (time);

-- Rows of machines.
CREATE TABLE machine_raw (LIKE device_raw, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE TABLE machine_1m (LIKE device_1m, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE INDEX machine_1m_time ON machine_1m USING brin (time);
CREATE TABLE machine_15m (LIKE device_1m, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE INDEX machine_15m_time ON machine_15m USING brin (time);
CREATE TABLE machine_6h (LIKE device_1m, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);
CREATE INDEX machine_6h_time ON machine_6h USING brin (time);

-- Snapshots by machine, compressed with zstd. The dictionary is the key frame of the same quarter of an hour.
CREATE TABLE frames (
  device bigint NOT NULL,
  time   timestamptz NOT NULL,
  record bytea NOT NULL,
  PRIMARY KEY (device, time)
) PARTITION BY RANGE (time);
ALTER TABLE frames ALTER record SET STORAGE EXTERNAL; -- it is compressed
CREATE TABLE key_frames (LIKE frames INCLUDING STORAGE, PRIMARY KEY (device, time)) PARTITION BY RANGE (time);

CREATE TABLE sessions (
  device          bigint NOT NULL,
  boot            text NOT NULL,
  pid             bigint NOT NULL,
  started         timestamptz NOT NULL, -- of the process; of the year 1: not known
  begun           timestamptz NOT NULL, -- of the first session of the process there
  user_name       text NOT NULL,
  name            text NOT NULL,
  program         text NOT NULL,
  command         text NOT NULL,
  container       text NOT NULL,
  image           text NOT NULL,
  pod             text NOT NULL,
  unit            text NOT NULL,
  job             text NOT NULL,
  type            text NOT NULL,
  from_time       timestamptz NOT NULL,
  to_time         timestamptz NOT NULL,
  outcome         text NOT NULL,
  seen            bigint NOT NULL, -- times that are no dates are in nanoseconds
  peak_memory     bigint,
  peak_quality    text NOT NULL,
  memory_seconds  double precision NOT NULL,
  memory_known    bigint NOT NULL,
  sm_seconds      double precision NOT NULL,
  sm_known        bigint NOT NULL,
  joules          double precision NOT NULL,
  joules_known    bigint NOT NULL,
  joules_method   text NOT NULL,
  busy            bigint NOT NULL,
  accounted       boolean NOT NULL,
  -- What goes on has none: then its row is changed without any index.
  span tstzrange GENERATED ALWAYS AS
    (CASE WHEN outcome <> 'open' THEN tstzrange(from_time, greatest(from_time, to_time), '[]') END) STORED,
  PRIMARY KEY (device, boot, pid, started, begun)
) WITH (fillfactor = 70);
CREATE INDEX sessions_span ON sessions USING gist (span);
CREATE INDEX sessions_open ON sessions (device) WHERE span IS NULL;

CREATE TABLE causes (
  device     bigint NOT NULL,
  id         text NOT NULL,
  from_time  timestamptz NOT NULL,
  to_time    timestamptz NOT NULL,
  open       boolean NOT NULL,
  kind       text NOT NULL,
  "case"     text NOT NULL,
  sentence   text NOT NULL,
  short      text NOT NULL,
  confidence double precision NOT NULL,
  who        text NOT NULL,
  span tstzrange GENERATED ALWAYS AS
    (CASE WHEN NOT open THEN tstzrange(from_time, greatest(from_time, to_time), '[]') END) STORED,
  PRIMARY KEY (device, id, from_time)
) WITH (fillfactor = 70);
CREATE INDEX causes_span ON causes USING gist (span);
CREATE INDEX causes_open ON causes (device) WHERE span IS NULL;

CREATE TABLE events (
  id       text COLLATE "C" PRIMARY KEY,
  device   bigint NOT NULL,
  time     timestamptz NOT NULL,
  kind     text NOT NULL,
  severity text NOT NULL,
  text     text NOT NULL,
  data     bytea
);
CREATE INDEX events_time ON events (time, id);

-- Small state, of each gpuwhy that writes here.
CREATE TABLE documents (
  owner text NOT NULL,
  name  text NOT NULL,
  text  bytea NOT NULL,
  PRIMARY KEY (owner, name)
);

CREATE TABLE unsettled (
  device bigint NOT NULL,
  tier   smallint NOT NULL,
  time   timestamptz NOT NULL,
  PRIMARY KEY (tier, time, device)
);
