DROP VIEW IF EXISTS http_requests_flow_mv;

DROP VIEW IF EXISTS http_requests_1m_mv;

DROP VIEW IF EXISTS http_colos_1m_mv;

DROP TABLE IF EXISTS http_requests_flow;

CREATE TABLE IF NOT EXISTS http_requests_flow (
    zone_id String,
    colo String,
    time DateTime('UTC'),
    requests UInt64,
    cached_requests UInt64,
    encrypted_requests UInt64,
    page_views UInt64,
    threats UInt64,
    errors_4xx UInt64,
    errors_5xx UInt64,
    request_bytes UInt64,
    response_bytes UInt64,
    cached_bytes UInt64,
    encrypted_bytes UInt64,
    timed_requests UInt64,
    duration_us UInt64,
    origin_requests UInt64,
    origin_duration_us UInt64,
    max_duration_us UInt64,
    requests_by_status Map(UInt16, UInt64),
    requests_by_country Map(String, UInt64),
    requests_by_content Map(String, UInt64),
    requests_by_cache Map(String, UInt64),
    requests_by_ssl Map(String, UInt64),
    requests_by_method Map(String, UInt64),
    requests_by_protocol Map(String, UInt64),
    requests_by_browser Map(String, UInt64),
    requests_by_os Map(String, UInt64),
    requests_by_device Map(String, UInt64),
    requests_by_bot Map(String, UInt64),
    requests_by_ip_class Map(String, UInt64),
    requests_by_host Map(String, UInt64),
    threats_by_type Map(String, UInt64),
    threats_by_country Map(String, UInt64),
    page_views_by_search_engine Map(String, UInt64),
    bytes_by_country Map(String, UInt64),
    bytes_by_content Map(String, UInt64),
    duration_bins Map(Int16, UInt64),
    origin_duration_bins Map(Int16, UInt64),
    response_size_bins Map(Int16, UInt64),
    clients Array(IPv6),
    stored_on Date DEFAULT today()
) ENGINE = Null;

CREATE MATERIALIZED VIEW IF NOT EXISTS http_requests_1m_mv TO http_requests_1m AS
SELECT
    zone_id,
    time,
    requests,
    cached_requests,
    encrypted_requests,
    page_views,
    threats,
    errors_4xx,
    errors_5xx,
    request_bytes,
    response_bytes,
    cached_bytes,
    encrypted_bytes,
    timed_requests,
    duration_us,
    origin_requests,
    origin_duration_us,
    max_duration_us,
    requests_by_status,
    requests_by_country,
    requests_by_content,
    requests_by_cache,
    requests_by_ssl,
    requests_by_method,
    requests_by_protocol,
    requests_by_browser,
    requests_by_os,
    requests_by_device,
    requests_by_bot,
    requests_by_ip_class,
    requests_by_host,
    threats_by_type,
    threats_by_country,
    page_views_by_search_engine,
    bytes_by_country,
    bytes_by_content,
    duration_bins,
    origin_duration_bins,
    response_size_bins,
    arrayReduce('uniqState', clients) AS uniques,
    stored_on
FROM http_requests_flow AS f;

CREATE MATERIALIZED VIEW IF NOT EXISTS http_colos_1m_mv TO http_colos_1m AS
SELECT
    zone_id,
    colo,
    time,
    requests,
    cached_requests,
    threats,
    response_bytes,
    cached_bytes,
    requests_by_status,
    requests_by_country,
    threats_by_type,
    threats_by_country,
    stored_on
FROM http_requests_flow AS f;

ALTER TABLE http_requests MODIFY SETTING merge_selector_base = 10;
