insert into stream_status (stream, epoch, state, started_at) values (%(stream)s, 1, 'waiting', now())
on conflict (stream) do update
    set epoch = stream_status.epoch + 1, state = 'waiting', started_at = now(), ready_at = null, batch_id = null
returning epoch
