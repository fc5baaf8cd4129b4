package ledger

// packetsOnPostgres are the same tables on PostgreSQL, whose triggers call functions.
const packetsOnPostgres = `
CREATE TABLE packet_store (
	seq       BIGINT PRIMARY KEY,
	time_us   BIGINT NOT NULL,
	kind      TEXT COLLATE "C" NOT NULL,
	call_id   TEXT COLLATE "C" NOT NULL,
	tool_id   TEXT COLLATE "C" NOT NULL,
	principal TEXT COLLATE "C" NOT NULL,
	lane      TEXT COLLATE "C" NOT NULL,
	node_id   TEXT COLLATE "C" NOT NULL,
	body      TEXT COLLATE "C" NOT NULL,
	prev      BYTEA NOT NULL,
	hash      BYTEA NOT NULL
);
CREATE INDEX packet_store_call ON packet_store (call_id) WHERE call_id <> '';
CREATE FUNCTION packet_store_refuses() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''packets are immutable''; END';
CREATE TRIGGER packet_store_immutable BEFORE UPDATE ON packet_store FOR EACH ROW EXECUTE FUNCTION packet_store_refuses();
CREATE TABLE ledger_head (
	chain TEXT COLLATE "C" PRIMARY KEY,
	head  BYTEA NOT NULL
);
CREATE TABLE ledger_segment (
	first   BIGINT PRIMARY KEY,
	last    BIGINT NOT NULL UNIQUE,
	prev    BYTEA NOT NULL,
	hash    BYTEA NOT NULL,
	since   BIGINT NOT NULL,
	until   BIGINT NOT NULL,
	key     BYTEA NOT NULL,
	sig     BYTEA NOT NULL,
	pruned  BIGINT NOT NULL
);
CREATE TABLE ledger_node_head (
	node_id TEXT COLLATE "C" PRIMARY KEY,
	head    BYTEA NOT NULL,
	by      TEXT COLLATE "C" NOT NULL,
	at_seq  BIGINT NOT NULL,
	time_ms BIGINT NOT NULL,
	key     BYTEA NOT NULL,
	sig     BYTEA NOT NULL
);
`
