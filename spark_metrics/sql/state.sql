update stream_status
set state = %(state)s, ready_at = case when %(state)s = 'running' then now() else ready_at end
where stream = %(stream)s and epoch = %(epoch)s
