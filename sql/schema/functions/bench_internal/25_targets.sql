-- Return whether another collector scrapes this host's exporter by address. A local stack scrapes its own exporter without an
-- instance, and leaves the host to that collector, or each value would be stored twice. An instance that is a path belongs to
-- one home directory, and duplicates nothing.
create or replace function bench_internal.scraped_elsewhere(p_host text, p_listener text, p_instance text, p_collector text)
returns boolean language sql stable as $$
    select p_instance = '' and exists (
        select from targets where host = p_host and listener = p_listener and instance <> '' and instance not like '/%'
        and collector <> p_collector and lease_until > now())
$$;
