"""A script whose neighbours have the names of packages of ours."""

import collector
import scheduler
import sql
from hypergauge import track

assert {collector.OWNER, scheduler.OWNER, sql.OWNER} == {"the user"}
with track("own"):
    print("the user's own modules")
