"""Records of provisioned devices, in both flavours."""

from __future__ import annotations

from hypergauge.sql.runs import provisioned_devices
from hypergauge.sql.runs.provisioned_devices import Holder, ProvisionedDevice
from hypergauge.sql.server.database import Database

DEAD, HEIR = Holder("n1", "boot", "/home", "1xA100", 11, 1.5), Holder("n1", "boot", "/home", "1xA100", 12, 2.5)


def test_what_is_made_is_recorded_adopted_and_forgotten(database: Database) -> None:
    with database.session() as connection:
        one = provisioned_devices.record(connection, "instance", DEAD, ["a"], ["GPU-1"], profile="3g.20gb", start=4)
        other = provisioned_devices.record(connection, "daemon", DEAD, ["b"], ["GPU-1", "GPU-2"], folder="/tmp/x")
        assert one == ProvisionedDevice(
            one.device_id, "instance", "n1", "boot", "/home", "1xA100", 11, 1.5, ["a"], ["GPU-1"], "3g.20gb", 4
        )
        provisioned_devices.record(
            connection, "daemon", Holder("n2", "boot", "/home", "", 11, 1.5), ["b"], [], folder="/tmp/y"
        )
        provisioned_devices.complete(connection, one.device_id, 2, "MIG-1")
        provisioned_devices.join(connection, other.device_id, ["c", "d"])
        provisioned_devices.adopt(connection, HEIR, ["d", "e"])
        provisioned_devices.adopt(connection, Holder("n1", "boot", "/another", "", 13, 3.5), ["a"])
        provisioned_devices.adopt(connection, HEIR, [])
        first, second = provisioned_devices.on_host(connection, "n1")
        assert (first.gpu_instance_id, first.mig_uuid, first.holder_pid) == (2, "MIG-1", 11)
        assert (second.run_ids, second.gpu_uuids, second.folder) == (["b", "c", "d"], ["GPU-1", "GPU-2"], "/tmp/x")
        assert (second.holder_pid, second.holder_created) == (12, 2.5)
        provisioned_devices.forget(connection, one.device_id)
        assert provisioned_devices.on_host(connection, "n1") == [second]
