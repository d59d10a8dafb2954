select send_id, chunk_index, channel, block, codes
from send_states
join unnest(%s::text[], %s::int[], %s::text[], %s::int[]) as staged (send_id, chunk_index, channel, block)
    using (send_id, chunk_index, channel, block)
