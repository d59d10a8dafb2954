-- Only the difference between recomputed and remembered rows is added, so that later counts of the stream are kept.
insert into {served} as s ({columns}) select {inserted} from {diff} on conflict ({unique}) do update set {updated};
delete from {served} using {diff} as d where {same} and (d.now).{first_key} is null{zero}
