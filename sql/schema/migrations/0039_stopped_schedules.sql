-- Who has asked the schedule of an experiment to end, in words; null while nobody has, and again when it is scheduled anew.
alter table experiments add column stop_reason text;
