-- What a run does now is asked for while it goes on: its newest phase, epoch and step, among perhaps a million steps.
create index spans_by_kind on spans (run_id, kind, started_at);
