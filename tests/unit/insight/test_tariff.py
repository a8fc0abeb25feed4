"""Tariff files: the price of a kilowatt hour at each time, and errors."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from hypergauge.core.config.settings import Settings
from hypergauge.core.errors import BadRequest
from hypergauge.insight.cost.tariff import Tariff

NIGHTS = """
currency = "DKK"
time_zone = "Europe/Copenhagen"
price_per_kwh = 3
carbon_g_per_kwh = 100

[[times]]
days = ["sat", "sun"]
price_per_kwh = 2

[[times]]
from = "22:00"
to = "06:00"
days = ["mon", "tue", "wed", "thu", "fri"]
price_per_kwh = 1
carbon_g_per_kwh = 50
"""


def load(folder: Path, text: str) -> Tariff:
    file = folder / "tariff.toml"
    file.write_text(text)
    return Tariff.load(file)


@pytest.mark.parametrize(
    ("moment", "price", "carbon"),
    [
        ("2026-03-24T12:00+01:00", 3, 100),
        ("2026-03-24T21:59+01:00", 3, 100),
        ("2026-03-24T22:00+01:00", 1, 50),
        ("2026-03-25T05:59+01:00", 1, 50),  # the night from Tuesday
        ("2026-03-25T06:00+01:00", 3, 100),
        ("2026-03-27T23:00+01:00", 1, 50),  # Friday
        ("2026-03-28T03:00+01:00", 2, 50),  # Saturday's price stands first; Friday's night has the carbon
        ("2026-03-29T12:00+02:00", 2, 100),
        ("2026-03-30T03:00+02:00", 3, 100),  # the night from Sunday does not belong to a weekday
        ("2026-03-30T20:30+00:00", 1, 50),  # 22:30 since the clocks went forward
        ("2026-03-27T20:30+00:00", 3, 100),  # 21:30 before
    ],
)
def test_the_first_period_that_holds_counts(tmp_path: Path, moment: str, price: float, carbon: float) -> None:
    tariff = load(tmp_path, NIGHTS)
    at = datetime.fromisoformat(moment)
    assert (tariff.at("price_per_kwh", at), tariff.at("carbon_g_per_kwh", at)) == (price, carbon)


def test_a_gpu_has_the_price_of_the_longest_name_that_its_model_contains(tmp_path: Path) -> None:
    tariff = load(tmp_path, '[gpu_hour]\nA100 = 1\n"A100 80GB" = 2\nL4 = 3\nH200 = 4.5\n')
    models = ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe", "NVIDIA L40S", "NVIDIA H200", "")
    assert [tariff.gpu_hour(model) for model in models] == [1, 2, None, 4.5, None]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("price_per_kwh = ", "not valid TOML: Invalid value (at end of document)"),
        ("price = 1", "unknown key 'price' (did you mean 'price_per_kwh'?)"),
        ("currency = 'EUR'", "there is no price: write price_per_kwh or carbon_g_per_kwh, [gpu_hour] or [host_hour]"),
        ("price_per_kwh = '1'", "price_per_kwh is '1', but must be a number of at least 0"),
        ("price_per_kwh = -1", "price_per_kwh is -1, but must be a number of at least 0"),
        ("price_per_kwh = nan", "price_per_kwh is nan, but must be a number of at least 0"),
        ("price_per_kwh = 1\ntime_zone = 'Europe/Kopenhagen'",
         "there is no time zone 'Europe/Kopenhagen' (did you mean 'Europe/Copenhagen'?)"),
        ("price_per_kwh = 1\npue = 0.9", "pue is 0.9, but a data center draws no less than its hardware: at least 1"),
        ("price_per_kwh = 1\ncurrency = 1", "currency is 1, but must be a string"),
        ("[[times]]\nprice_per_kwh = 1",
         "[[times]] has price_per_kwh; write its value for all other times at the top, as price_per_kwh"),
        ("price_per_kwh = 1\n[[times]]\nform = '22:00'", "[[times]] 1: unknown key 'form' (did you mean 'from'?)"),
        ("price_per_kwh = 1\n[[times]]\nfrom = '22:00'", "[[times]] 1: there is a from, but not both from and to"),
        ("price_per_kwh = 1\n[[times]]\nfrom = '22:00'\nto = '06:00'",
         "[[times]] 1: there is neither price_per_kwh nor carbon_g_per_kwh"),
        ("price_per_kwh = 1\n[[times]]\nfrom = '22'\nto = '06:00'\nprice_per_kwh = 1",
         "[[times]] 1: from is '22', but must be a time of the day such as \"22:00\""),
        ("price_per_kwh = 1\n[[times]]\ndays = ['sat']\nprice_per_kwh = 1\n[[times]]\ndays = ['sum']\nprice_per_kwh = 1",
         "[[times]] 2: there is no day 'sum' (did you mean 'sun'?)"),
        ("price_per_kwh = 1\n[times]\nfrom = '22:00'", "times must be an array of tables: [[times]]"),
        ("gpu_hour = 1", "gpu_hour is not a section: write [gpu_hour], and below it a price for each name"),
        ("[gpu_hour]\nH100 = '2'", "[gpu_hour] H100 is '2', but must be a number of at least 0"),
    ],
)  # fmt: skip
def test_errors_in_a_file_are_reported(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(BadRequest) as error:
        load(tmp_path, text)
    assert str(error.value) == f"{tmp_path / 'tariff.toml'}: {expected}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="the tariff cannot be read: No such file"):
        Tariff.load(tmp_path / "tariff.toml")


def test_a_tariff_stands_beside_bench_toml(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text('tariff = "tariff.toml"\n')
    below = tmp_path / "below"
    below.mkdir()
    assert Settings.load({}, below).tariff == tmp_path / "tariff.toml"
    assert Settings.load({"BENCH_TARIFF": "/b.toml"}, below).tariff == Path("/b.toml")
    assert Settings.load({"BENCH_TARIFF": "/b.toml"}, below, tariff=Path("/c.toml")).tariff == Path("/c.toml")
