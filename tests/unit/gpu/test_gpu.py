"""Inventory of GPUs: simulated ones, and real ones if this host has any."""

from __future__ import annotations

import re

import pytest

from hypergauge.core.errors import BadRequest
from hypergauge.gpu import Inventory, inventory

GIB = 2**30
HEX = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def test_simulated_gpus_match_the_specification() -> None:
    found = inventory("2xH100, 4xA100:7x1g.5gb")
    assert found.reason is None
    assert [gpu.index for gpu in found.gpus] == [0, 1, 2, 3, 4, 5]
    assert [(gpu.memory_bytes or 0) // GIB for gpu in found.gpus] == [80, 80, 40, 40, 40, 40]
    assert all(gpu.simulated for gpu in found.gpus)
    assert [len(gpu.mig) for gpu in found.gpus] == [0, 0, 7, 7, 7, 7]
    assert [instance.gpu_instance_id for instance in found.gpus[2].mig] == [7, 8, 9, 10, 11, 12, 13]
    assert {instance.profile for instance in found.gpus[2].mig} == {"1g.5gb"}


def test_uuids_are_nvidias_form_unique_and_the_same_every_time() -> None:
    found = inventory("2xH100,4xA100:7x1g.5gb")
    gpus = [gpu.uuid for gpu in found.gpus]
    instances = [instance.uuid for gpu in found.gpus for instance in gpu.mig]
    assert all(re.fullmatch(f"GPU-{HEX}", uuid) for uuid in gpus)
    assert all(re.fullmatch(f"MIG-{HEX}", uuid) for uuid in instances)
    assert len({*gpus, *instances}) == 6 + 28
    assert found == inventory("2xH100,4xA100:7x1g.5gb")


@pytest.mark.parametrize("model", ["A100", "A100-80GB", "A30", "H100", "H200", "L4", "RTX4090", "T4", "h200"])
def test_models_are_recognized(model: str) -> None:
    (gpu,) = inventory(f"1x{model}").gpus
    assert (gpu.memory_bytes or 0) >= 16 * GIB
    for profile in gpu.mig_profiles:
        (partitioned,) = inventory(f"1x{model}:1x{profile}").gpus
        assert [instance.profile for instance in partitioned.mig] == [profile]


def test_instances_of_several_profiles_have_ids_of_their_own() -> None:
    (gpu,) = inventory("1xH200:1x3g.71gb+1x4g.71gb").gpus
    assert len({instance.gpu_instance_id for instance in gpu.mig}) == 2


def test_instances_with_a_single_possible_placement_fit() -> None:
    (gpu,) = inventory("1xA100:1x3g.20gb+1x2g.10gb+2x1g.5gb").gpus
    assert sorted(instance.profile for instance in gpu.mig) == ["1g.5gb", "1g.5gb", "2g.10gb", "3g.20gb"]


def test_mig_mode_needs_no_instances() -> None:
    partitioned, whole = inventory("1xA100:mig,1xA100").gpus
    assert (partitioned.mig_enabled, partitioned.mig) == (True, ())
    assert not whole.mig_enabled


@pytest.mark.parametrize(
    ("specification", "message"),
    [
        ("2xH10", "there is no GPU model 'H10' to simulate (did you mean 'H100'?)"),
        ("1xVoodoo", "there is no GPU model 'Voodoo' to simulate (one of: A100, "),
        ("H100", "'H100' specifies no GPUs: write COUNTxMODEL"),
        ("0xH100", "'0xH100'"),
        ("2xH100,", "''"),
        ("1xA100:7x1g.6gb", "there is no MIG profile '1g.6gb' on A100 (did you mean '1g.5gb'?)"),
        ("1xT4:1x1g.5gb", "there is no MIG profile '1g.5gb' on T4, which has no MIG"),
        ("1xA100:1g.5gb", "'1g.5gb' is not a set of MIG instances: write COUNTxPROFILE"),
        ("1xA100:8x1g.5gb", "8x1g.5gb do not fit"),
        ("1xA100:1x4g.20gb+2x2g.10gb", "do not fit"),
        ("1xH100:5x1g.20gb", "do not fit"),
    ],
)
def test_a_bad_specification_is_refused(specification: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        inventory(specification)
    assert message in str(caught.value)


def test_find_takes_an_index_a_uuid_or_a_prefix_of_one() -> None:
    found = inventory("3xA100")
    second = found.gpus[1]
    for word in ("1", second.uuid, second.uuid.upper(), second.uuid[:12]):
        assert found.find(word) is second


@pytest.mark.parametrize(
    ("specification", "word", "message"),
    [
        ("1xT4", "3", "device 3 does not exist: this host has GPU 0"),
        ("2xT4", "3", "device 3 does not exist: this host has GPUs 0, 1"),
        ("1xT4", "GPU-00", "device GPU-00 does not exist: this host has GPU 0 (one of: GPU-"),
        ("2xT4", "GPU-", "device GPU- does not exist: this host has GPUs 0, 1"),
    ],
)
def test_an_unknown_device_is_refused_with_the_existing_ones(specification: str, word: str, message: str) -> None:
    with pytest.raises(BadRequest) as caught:
        inventory(specification).find(word)
    assert str(caught.value).startswith(message)


def test_an_ambiguous_prefix_is_refused() -> None:
    found = inventory("40xT4")  # more than the possible first digits
    first = max((gpu.uuid[4] for gpu in found.gpus), key=[gpu.uuid[4] for gpu in found.gpus].count)
    with pytest.raises(BadRequest, match="ambiguous"):
        found.find(f"GPU-{first}")


def test_a_host_without_gpus_names_the_reason() -> None:
    with pytest.raises(BadRequest, match=r"no GPU$"):
        Inventory().find("3")
    with pytest.raises(BadRequest, match=r"\(Driver Not Loaded\)$"):
        Inventory(reason="Driver Not Loaded").find("3")


def test_real_inventory_has_gpus_or_a_reason() -> None:
    found = inventory()
    assert found.gpus or found.reason
    for gpu in found.gpus:
        assert gpu.uuid.startswith("GPU-")
        assert gpu.memory_bytes is None or gpu.memory_bytes > GIB
        assert not gpu.simulated
        assert found.find(gpu.uuid) == gpu
