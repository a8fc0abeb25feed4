-- Why a target's last scrape failed, in the collector's words; null where it did not.
alter table targets add column last_error text;
