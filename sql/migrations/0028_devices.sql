-- A target's labels may say the host, which then goes before the one that its lines name: in Kubernetes that is a pod's.
alter table targets add column says_host boolean not null default false;
