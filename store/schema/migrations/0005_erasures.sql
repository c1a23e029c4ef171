CREATE TABLE IF NOT EXISTS erasures (
    day Date,
    zone_id LowCardinality(String),
    requests SimpleAggregateFunction(sum, UInt64),
    erased_on SimpleAggregateFunction(max, Date) DEFAULT today()
) ENGINE = AggregatingMergeTree
ORDER BY (day, zone_id)
TTL erased_on + INTERVAL 1100 DAY DELETE
SETTINGS index_granularity = 256;
