case when bucket + interval '{seconds} s' <= (select complete_before from batch_lane) then -1 else (select lane from batch_lane) end
