// What the API answers, as far as the page reads it. docs/reference/api.md has the whole.

export interface Zone {
  id: string;
  name: string;
  status: string;
  hosts?: string[];
  created_on?: string;
}

type Counts = Record<string, number>;

/** One point of the dashboard answer, and its totals. since and until are RFC 3339. */
export interface Traffic {
  since: string;
  until: string;
  requests: {
    all: number;
    cached: number;
    uncached: number;
    http_status: Counts;
    country: Counts;
    content_type: Counts;
    ssl: { encrypted: number; unencrypted: number };
  };
  bandwidth: { all: number; cached: number; uncached: number };
  threats: { all: number };
  pageviews: { all: number };
  uniques: { all: number };
}

export interface Dashboard {
  query: { since: string; until: string; time_delta: number };
  totals: Traffic;
  timeseries: Traffic[];
}

/** Percentiles are null, or absent, when no event of the span carries a duration. */
export interface LatencyPoint {
  since: string;
  until: string;
  count: number;
  p50_ms?: number | null;
  p90_ms?: number | null;
  p95_ms?: number | null;
  p99_ms?: number | null;
}

export interface Latency {
  time_delta: number;
  totals: {
    count: number;
    mean_ms?: number | null;
    p50_ms?: number | null;
    p90_ms?: number | null;
    p95_ms?: number | null;
    p99_ms?: number | null;
    p999_ms?: number | null;
    max_ms?: number | null;
  };
  timeseries: LatencyPoint[];
  /** counts are [index of the point, index of the bin, count]; only bins that hold something need be there. */
  heatmap: { bins: { low_ms: number; high_ms: number }[]; counts: [number, number, number][] };
}

export interface TopRow {
  value: string;
  requests: number;
  bytes: number;
  errors: number;
  /** How much more the value may have; 0 where single requests were counted. */
  error_bound: { requests: number; bytes: number };
}

export interface Top {
  dimension: string;
  rows: TopRow[];
  total: { requests: number; bytes: number };
  /** What a value that is not among the rows may have without having been seen. */
  error_bound: { requests: number; bytes: number };
  /** The range of the answer where it had to be longer than the one asked for: single requests have expired. */
  widened?: Dashboard['query'];
}

/** One second of live traffic; t in Unix seconds. */
export interface LivePoint {
  t: number;
  requests: number;
  bytes: number;
  s2xx: number;
  s3xx: number;
  s4xx: number;
  s5xx: number;
  p50_ms?: number | null;
  p99_ms?: number | null;
}

/** One tick of the live stream. now is in Unix seconds or RFC 3339. */
export interface Tick {
  now: number | string;
  lag_seconds: number;
  points: LivePoint[];
}

export interface SystemStatus {
  version?: string;
}

/** What became of events. duplicates, refused, batches and missing count batches, the others events. */
export interface DeliveryCounts {
  accepted: number;
  stored: number;
  pending: number;
  batches: number;
  bytes: number;
  duplicates: number;
  dropped: number;
  refused: number;
  late: number;
  oldest_ms: number;
  missing: number;
}

export interface DeliveryMinute extends DeliveryCounts {
  minute: string;
}

/** Batches of one epoch that are missing between two sequence numbers. */
export interface Gap {
  epoch: string;
  from: number;
  to: number;
  missing: number;
  since: string;
  until: string;
}

export interface EdgeDelivery {
  edge: string;
  totals: DeliveryCounts;
  minutes: DeliveryMinute[];
  gaps: Gap[];
}

/** What an edge had to tell of one kind about one source. */
export interface Notices {
  edge: string;
  kind: string;
  source: string;
  count: number;
  first: string;
  last: string;
  reason: string;
  samples: { time: string; line: number; reason: string; text: string }[];
}

export interface Delivery {
  query: Dashboard['query'];
  settled: string;
  complete: boolean;
  reasons: string[];
  backlog: { known: boolean; messages: number; seconds: number; lost: number };
  totals: DeliveryCounts;
  edges: EdgeDelivery[];
  notices: Notices[];
}
