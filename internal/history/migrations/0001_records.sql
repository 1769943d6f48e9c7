-- One text for SQLite and PostgreSQL, but for SERIAL_KEY and CLUSTERED. Times are microseconds since 1970 UTC. What a
-- record has not is empty text, not NULL, so that a column is always compared in the same way.
CREATE TABLE record (
  seq       SERIAL_KEY,
  id        TEXT   NOT NULL UNIQUE,
  at        BIGINT NOT NULL,
  stored    BIGINT NOT NULL,
  cluster   TEXT   NOT NULL,
  type      TEXT   NOT NULL,
  kind      TEXT   NOT NULL,
  namespace TEXT   NOT NULL,
  raw       TEXT   NOT NULL
);
CREATE INDEX record_at ON record (at, seq);
CREATE INDEX record_day ON record (cluster, at, seq);
CREATE INDEX record_stored ON record (stored);

-- What a record can be found by, see terms.go: object, parent, initiator, approver, cause, external name, causedBy.
CREATE TABLE term (
  term TEXT   NOT NULL,
  at   BIGINT NOT NULL,
  seq  BIGINT NOT NULL,
  PRIMARY KEY (term, at, seq)
) CLUSTERED;

-- Clusters by UID: their last name, and whose credential their records come with.
CREATE TABLE cluster (
  uid    TEXT NOT NULL PRIMARY KEY,
  name   TEXT NOT NULL,
  sender TEXT NOT NULL
);

-- Records of a version that this program cannot read, until one that can opens the store.
CREATE TABLE unread (
  id     TEXT   NOT NULL PRIMARY KEY,
  stored BIGINT NOT NULL,
  sender TEXT   NOT NULL,
  raw    TEXT   NOT NULL
);

-- Keyed hashes of names that are replaced, in records of a time before until.
CREATE TABLE forgotten (
  hash  TEXT   NOT NULL PRIMARY KEY,
  until BIGINT NOT NULL
);
