-- Listeners that hosts have announced, and since when a target does not answer.

create table announcements (
    host         text not null,
    listener     text not null,
    url          text not null,                        -- as other hosts reach it; on 127.0.0.1, as its own host does
    announced_at timestamptz not null default now(),   -- of several of one host and listener the first counts
    renewed_at   timestamptz not null default now(),
    primary key (host, listener, url)
);

-- By the database's clock, like leases: those of collectors may be off by minutes.
alter table targets add column down_since timestamptz;
