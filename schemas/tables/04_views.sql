-- Views: further sums of the counts (spark_metrics.counting.views), merged with them. Written by spark_metrics only.

-- The views that the stream maintains. since: records counted before it are not in the view (recompute --swap adds them);
-- kept_since: older rows were deleted by spark_metrics.retention.
create table if not exists stream_views (
    view       text        primary key,
    since      timestamptz not null,
    kept_since timestamptz not null default '-infinity'
);
