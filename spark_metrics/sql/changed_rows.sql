-- Whether the stream has changed a value that a swap replaces, and does not add.
select exists (
    select from {diff} as d left join {served} on {same} where ({served_other}) is distinct from ({was_other})
)
