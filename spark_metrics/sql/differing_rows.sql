create temporary table {diff} as
select {key}, was, now from {was} as was full join {now} as now using ({key})
where ({was_values}) is distinct from ({now_values})
