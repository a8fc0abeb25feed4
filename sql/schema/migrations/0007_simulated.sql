-- Whether a run was placed on simulated GPUs.
alter table runs add column simulated boolean not null default false;
