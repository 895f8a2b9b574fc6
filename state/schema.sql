-- A partition's database (state.duckdb). Timestamps are UTC without a zone. Names are frozen: tests pin them.
-- Large tables carry no index: they are read and rewritten in bulk, by one writer at a time under the lock.

CREATE TABLE meta (key VARCHAR PRIMARY KEY, value VARCHAR NOT NULL);

-- Every checksum ever observed here, with the albums of its last observation (replaced, never merged).
CREATE TABLE observed (
    checksum VARCHAR NOT NULL,
    albums VARCHAR[] NOT NULL DEFAULT [],
    first_observed_at TIMESTAMP NOT NULL
);

-- First write wins: confirmed_at is never moved while the entry stands. cause: deleted, retired, limbo.
CREATE TABLE confirmed_deleted (checksum VARCHAR NOT NULL, confirmed_at TIMESTAMP NOT NULL, cause VARCHAR NOT NULL);

-- The first checksum set ever observed of a local id.
CREATE TABLE edit_anchors (library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL, checksum VARCHAR NOT NULL);

-- A checksum that a living id gave up, and that is not its anchor. Confirmed by the next completed run.
CREATE TABLE retired (
    checksum VARCHAR NOT NULL, library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL, run_id VARCHAR NOT NULL
);

CREATE TABLE exclusions (
    checksum VARCHAR NOT NULL, excluded_at TIMESTAMP NOT NULL, reason VARCHAR NOT NULL DEFAULT '',
    file_name VARCHAR NOT NULL DEFAULT ''
);

-- Checksums of whose deletion no library here tells: only a removed library or a checksums file held them, a library lists
-- them no more, or a run trashed them. Shown for review, never trashed by themselves, until a library holds them again.
CREATE TABLE detached (checksum VARCHAR NOT NULL, library_id VARCHAR NOT NULL, detached_at TIMESTAMP NOT NULL);

-- The id-to-checksums cache: what each registered library held when it was last enumerated.
CREATE TABLE local_index (
    library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL, part VARCHAR NOT NULL, checksum VARCHAR NOT NULL,
    file_name VARCHAR NOT NULL, size BIGINT, modified_ns BIGINT, file_identity VARCHAR, captured_at TIMESTAMP,
    albums VARCHAR[] NOT NULL DEFAULT [], in_trash BOOLEAN DEFAULT false
);

-- token: the change token taken before the last enumeration whose changes were all applied; null: none yet.
-- snapshot: which enumeration local_index holds, counted from 1. The token carries the number of the one that it goes with.
CREATE TABLE libraries (
    library_id VARCHAR PRIMARY KEY, kind VARCHAR NOT NULL, label VARCHAR NOT NULL, config VARCHAR NOT NULL,
    added_at TIMESTAMP NOT NULL, token VARCHAR, enumerated_at TIMESTAMP, snapshot BIGINT DEFAULT 0
);

CREATE TABLE runs (
    run_id VARCHAR PRIMARY KEY, flow VARCHAR NOT NULL, way VARCHAR NOT NULL, dry_run BOOLEAN NOT NULL,
    started_at TIMESTAMP NOT NULL, duration_ms BIGINT, outcome VARCHAR NOT NULL, rail VARCHAR,
    local_count BIGINT, server_count BIGINT, matched_count BIGINT, trashed_count BIGINT, plan_digest VARCHAR
);

-- Local ids that a run missed and of which a person said that they really were deleted (rail `collapse`), until the next
-- run that reads everything.
CREATE TABLE accepted_losses (library_id VARCHAR NOT NULL, local_id VARCHAR NOT NULL);

-- Checksums that only checksums files have listed, never a library that was read here.
CREATE TABLE file_only (checksum VARCHAR NOT NULL);
