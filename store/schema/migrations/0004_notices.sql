CREATE TABLE IF NOT EXISTS notices (
    edge LowCardinality(String),
    time DateTime64(3, 'UTC') CODEC(Delta, Default),
    kind LowCardinality(String),
    source String,
    line UInt64,
    count UInt64,
    reason String,
    sample String,
    stored_on Date DEFAULT today()
) ENGINE = MergeTree
PARTITION BY toYYYYMM(time)
ORDER BY (time, edge, kind)
TTL stored_on + INTERVAL 90 DAY DELETE
SETTINGS index_granularity = 1024, non_replicated_deduplication_window = 10000;
