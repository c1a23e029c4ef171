CREATE TABLE IF NOT EXISTS http_requests_top_1h (
    zone_id LowCardinality(String),
    dimension LowCardinality(String),
    time DateTime('UTC') CODEC(Delta, Default),
    requests UInt64,
    bytes UInt64,
    errors UInt64,
    distinct_values UInt64,
    floor_requests UInt64,
    floor_bytes UInt64,
    listed Array(String) CODEC(ZSTD(1)),
    listed_requests Array(UInt64) CODEC(ZSTD(1)),
    listed_bytes Array(UInt64) CODEC(ZSTD(1)),
    listed_errors Array(UInt64) CODEC(ZSTD(1)),
    stored_on Date DEFAULT today()
) ENGINE = ReplacingMergeTree(requests)
PARTITION BY toYear(time)
ORDER BY (zone_id, dimension, time)
TTL stored_on + INTERVAL 400 DAY DELETE
SETTINGS index_granularity = 64, ttl_only_drop_parts = 1;

CREATE TABLE IF NOT EXISTS http_requests_top_1d (
    zone_id LowCardinality(String),
    dimension LowCardinality(String),
    time DateTime('UTC') CODEC(Delta, Default),
    requests UInt64,
    bytes UInt64,
    errors UInt64,
    distinct_values UInt64,
    floor_requests UInt64,
    floor_bytes UInt64,
    listed Array(String) CODEC(ZSTD(1)),
    listed_requests Array(UInt64) CODEC(ZSTD(1)),
    listed_bytes Array(UInt64) CODEC(ZSTD(1)),
    listed_errors Array(UInt64) CODEC(ZSTD(1)),
    stored_on Date DEFAULT today()
) ENGINE = ReplacingMergeTree(requests)
PARTITION BY toYear(time)
ORDER BY (zone_id, dimension, time)
TTL stored_on + INTERVAL 1830 DAY DELETE
SETTINGS index_granularity = 64, ttl_only_drop_parts = 1;
