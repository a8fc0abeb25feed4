-- Collectors that live, and what they are given: those with the same targets share them.
create table collectors (
    source      text primary key,      -- of its batches
    host        text not null,
    pid         integer not null,
    targets     text not null,         -- a digest of them
    lease_until timestamptz not null
);

-- Since when a target is its collector's. What another one has scraped from then on is there twice.
alter table targets add column held_since timestamptz;
