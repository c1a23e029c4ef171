CREATE TABLE IF NOT EXISTS ledger_batches (
    edge LowCardinality(String),
    epoch UInt64,
    block UInt64 CODEC(Delta, Default),
    sequences AggregateFunction(groupBitmap, UInt64),
    first_sequence SimpleAggregateFunction(min, UInt64),
    last_sequence SimpleAggregateFunction(max, UInt64),
    marks SimpleAggregateFunction(maxMap, Map(UInt32, UInt64)),
    events SimpleAggregateFunction(sum, UInt64),
    first_minute SimpleAggregateFunction(min, DateTime('UTC')),
    last_minute SimpleAggregateFunction(max, DateTime('UTC')),
    stored_on SimpleAggregateFunction(max, Date) DEFAULT today()
) ENGINE = AggregatingMergeTree
ORDER BY (edge, epoch, block)
TTL stored_on + INTERVAL 400 DAY DELETE
SETTINGS index_granularity = 256, non_replicated_deduplication_window = 10000;

ALTER TABLE ledger ADD COLUMN IF NOT EXISTS stored_on SimpleAggregateFunction(max, Date) DEFAULT today();

ALTER TABLE ledger MODIFY TTL stored_on + INTERVAL 400 DAY DELETE;
