"""Addresses, and places that are nobody's address."""

from .draw import Draw
from .material import CJK, Material
from .people import invented_word

BOXES = ["PO Box", "P.O. Box", "Postfach", "PSC", "Unit", "Box", "Apartado"]
CORNERS = {
    "en": ["the corner of {} and {}", "corner of {} and {}", "{} and {}", "{} & {}", "the intersection of {} and {}"],
    "de": ["Ecke {}/{}", "{} Ecke {}"],
    "fr": ["à l'angle de {} et {}", "angle {} et {}"],
    "es": ["esquina de {} y {}", "{} esquina {}"],
    "it": ["angolo {} e {}", "{} angolo {}"],
    "pt": ["esquina da {} com {}"],
    "nl": ["hoek {}/{}", "de hoek van {} en {}"],
    "pl": ["róg {} i {}"],
}
LOOSE_SEPARATORS = [", ", "\n", " ", ",\n", "\n, ", " , ", "\n ", ",", " - ", "\n    "]
COMPANY_ENDINGS = [
    "",
    "",
    "",
    "io",
    "ly",
    "tech",
    "soft",
    " Labs",
    " Software",
    " Health",
    " Group",
    ".com",
    " AG",
    " plc",
]


class Places:
    def __init__(self, draw: Draw, material: Material):
        self.draw = draw
        self.material = material
        self.pools = material.pools

    def address(self, locale: str) -> str:
        pool, draw = self.pools[locale], self.draw
        kind = draw.uniform()
        if kind < 0.30 or (locale[:2] in CJK and kind >= 0.42):
            address = draw.choice(pool["address"])
        elif kind < 0.42:
            address = draw.choice(pool["street_address"])
        elif kind < 0.47:
            address = self._corner(locale)
        elif kind < 0.60:
            address = self._loose(locale)
        else:
            address = self._composed(locale)
        if "\n" in address:
            if draw.chance(0.55):
                address = ", ".join(line.strip().rstrip(",") for line in address.split("\n"))
            elif draw.chance(0.3):
                address = address.replace("\n", draw.choice(["\n ", "\n  ", "\n   "]))
        return address.strip()

    def _composed(self, locale: str) -> str:
        """Street, number, city and the rest, in the orders that people write."""
        pool, draw = self.pools[locale], self.draw
        line, city, zip_code = self._street_line(locale), draw.choice(pool["city"]), self.zip_code(locale)
        between = draw.choice([", ", ", ", ", ", "\n", " "])
        kind = draw.uniform()
        if kind < 0.22:
            return line
        if kind < 0.45:
            return line + between + city
        if kind < 0.72:
            english = locale.startswith("en") and draw.chance(0.8)
            return line + between + (f"{city} {zip_code}" if english else f"{zip_code} {city}")
        if kind < 0.86:
            country = draw.choice(pool["country"])
            return f"{line}{between}{city}{between}{country}" + (f" {zip_code}" if draw.chance(0.4) else "")
        if kind < 0.95:
            country = between + draw.choice(["USA", "UK", "Canada", "Germany", "France"])
            state = draw.pattern("??")
            return f"{line}{between}{city}, {state} {zip_code}" + (country if draw.chance(0.3) else "")
        return f"{draw.choice(BOXES)} {draw.digits(4)}{between}{city} {zip_code}"

    def _corner(self, locale: str) -> str:
        """Two streets that meet."""
        one, two = self.street(locale), self.street(locale)
        own = CORNERS.get(locale[:2], CORNERS["en"])
        return self.draw.choice(own if self.draw.chance(0.6) else CORNERS["en"]).format(one, two)

    def _loose(self, locale: str) -> str:
        """An address whose parts are joined carelessly, as programs and hasty people do it."""
        pool, draw = self.pools[locale], self.draw
        parts = [self._street_line(locale)]
        if draw.chance(0.15):
            parts = [f"{draw.choice(BOXES)} {draw.digits(draw.number(2, 4))}"]
        if draw.chance(0.3):
            parts.append(draw.choice(["Apt. ", "Suite ", "Flat ", "Floor ", "Unit "]) + draw.digits(draw.number(1, 3)))
        city = draw.choice(pool["city"])
        parts.append(city.upper() if draw.chance(0.2) else city)
        if draw.chance(0.35):
            parts.append(draw.pattern("??") if draw.chance(0.7) else draw.choice(pool.get("state") or [city]))
        zip_code = draw.digits(5) if draw.chance(0.5) else self.zip_code(locale)
        country = draw.choice(pool["country"]) if draw.chance(0.5) else draw.choice(self.material.places["country"])
        parts += draw.choice([[zip_code], [country], [f"{country} {zip_code}"], [country, zip_code]])
        separators = [draw.choice(LOOSE_SEPARATORS) for _ in parts[1:]]
        if draw.chance(0.6):
            separators = separators[:1] * len(separators)
        return parts[0] + "".join(between + part for between, part in zip(separators, parts[1:]))

    def _street_line(self, locale: str) -> str:
        pool, draw = self.pools[locale], self.draw
        number = str(draw.number(1, 300)) + draw.choice(["", "", "", "a", "b", "A", " B"])
        if draw.chance(0.5):
            number = draw.choice(pool["building"])
        street = draw.choice(pool["street"])
        number_first = (locale[:2] in ("en", "fr", "fi") and draw.chance(0.85)) or draw.chance(0.2)
        line = f"{number} {street}" if number_first else f"{street} {number}"
        if draw.chance(0.12):
            line = f"{draw.digits(draw.number(2, 5))} {line}"
        if draw.chance(0.18):
            unit = draw.choice([" Apt. ", " Suite ", ", Apt ", " #", ", Unit ", " Floor "])
            line += unit + draw.digits(draw.number(1, 3))
        return line

    def street(self, locale: str) -> str:
        """A street, most times with a number."""
        pool, draw = self.pools[locale], self.draw
        if draw.chance(0.5):
            return draw.choice(pool["street_address"]).replace("\n", " ")
        street = draw.choice(pool["street"])
        return f"{draw.number(1, 200)} {street}" if draw.chance(0.7) else street

    def zip_code(self, locale: str) -> str:
        return self.draw.choice(self.pools[locale].get("zip") or [self.draw.digits(5)])

    def place(self, language: str) -> str:
        """A city or a country."""
        if language != "en" and self.draw.chance(0.6):
            return self.draw.choice(self.pools[self._locale(language)]["city"])
        kind = self.draw.uniform()
        return self.draw.choice(self.material.places["top" if kind < 0.4 else "country" if kind < 0.7 else "city"])

    def city(self, language: str, locale: str) -> str:
        if language != "en":
            return self.draw.choice(self.pools[locale]["city"])
        if self.draw.chance(0.55):
            return self.place("en")
        anywhere = self.draw.choice(self.material.locales)
        return self.draw.choice(self.pools[anywhere if self.draw.chance(0.6) else self._locale("en")]["city"])

    def country(self, language: str, locale: str) -> str:
        if language == "en":
            return self.draw.choice(self.material.places["country"])
        return self.draw.choice(self.pools[locale]["country"])

    def company(self, language: str, locale: str) -> str:
        draw = self.draw
        kind = draw.uniform()
        if kind < 0.17:
            return draw.choice(self.material.words["companies"])
        if kind < 0.40:
            return draw.choice(self.material.places["company"])
        if kind < 0.50:
            return invented_word(draw) + draw.choice(COMPANY_ENDINGS)
        if kind < 0.82:
            return draw.choice(self.pools[self._locale("en") if language == "en" else locale]["company"])
        words = draw.choice(["", " "]).join(self._words(draw.number(1, 3)))
        return words + draw.choice(["", " Inc.", " Ltd", " GmbH", " Corp", " LLC"])

    def title(self) -> str:
        """The title of a work."""
        return " ".join(self._words(self.draw.number(1, 4)))

    def _words(self, count: int) -> list[str]:
        return [self.draw.choice(self.material.us["word"]).capitalize() for _ in range(count)]

    def _locale(self, language: str) -> str:
        return self.draw.choice(self.material.languages[language].locales)
