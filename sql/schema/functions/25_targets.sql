-- Whether another collector has a host's exporter by its address. Stacks, whose own has no instance, leave it to that one:
-- the same figures would be there twice. An instance that is a path is a home's own, and nobody else's figures.
create or replace function scraped_elsewhere(p_host text, p_listener text, p_instance text, p_collector text)
returns boolean language sql stable as $$
    select p_instance = '' and exists (
        select from targets where host = p_host and listener = p_listener and instance <> '' and instance not like '/%'
        and collector <> p_collector and lease_until > now())
$$;
