"""Dates as people write them in each language."""

import datetime

from .draw import Draw, Weighted
from .material import Material

NUMERIC = "%d/%m/%Y %m/%d/%Y %d.%m.%Y %d-%m-%Y %m-%d-%Y %d.%m.%y %m/%d/%y %Y/%m/%d %Y%m%d %Y.%m.%d".split() + [
    "%d %m %Y"
]
FORMS = Weighted({"iso": 20, "numeric": 22, "short": 8, "with time": 4, "words": 46})


class Dates:
    def __init__(self, draw: Draw, material: Material):
        self.draw = draw
        self.months = {code: language.months for code, language in material.languages.items()}

    def day(self, first_year: int = 1930, last_year: int = 2030) -> datetime.date:
        draw = self.draw
        return datetime.date(draw.number(first_year, last_year), draw.number(1, 12), draw.number(1, 28))

    def minutes(self) -> str:
        return f"{self.draw.number(0, 23):02d}:{self.draw.number(0, 59):02d}"

    def date(self, language: str, first_year: int = 1990, last_year: int = 2032) -> str:
        draw, day = self.draw, self.day(first_year, last_year)
        if language in ("zh", "ja", "ko") and draw.chance(0.6):
            return self._east_asian(language, day)
        match FORMS.pick(draw):
            case "iso":
                return day.isoformat()
            case "numeric":
                return day.strftime(draw.choice(NUMERIC))
            case "short":
                american = language == "en" and draw.chance(0.7)
                return f"{day.month}/{day.day}/{day.year}" if american else f"{day.day}.{day.month}.{day.year}"
            case "with time":
                return (
                    day.isoformat()
                    + draw.choice(" T")
                    + self.minutes()
                    + draw.choice(["", "Z", f":{draw.number(0, 59):02d}", f":{draw.number(0, 59):02d}Z"])
                )
        month = (self.months[language] or self.months["en"])[day.month - 1]
        return self._english(day, month) if language == "en" else self._in_words(language, day, month)

    def _east_asian(self, language: str, day: datetime.date) -> str:
        year, month, number = day.year, day.month, day.day
        if language == "ko":
            forms = [f"{year}년 {month}월 {number}일", f"{month}월 {number}일", f"{year}.{month:02d}.{number:02d}"]
        else:
            forms = [f"{year}年{month}月{number}日", f"{month}月{number}日", f"{year}年{month:02d}月{number:02d}日",
                     f"{year}/{month}/{number}"]  # fmt: skip
        return self.draw.choice(forms)

    def _english(self, day: datetime.date, month: str) -> str:
        n, year, short = day.day, day.year, month[:3]
        suffix = "th" if 10 < n < 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        forms = [
            f"{month} {n}, {year}", f"{month} {n:02d}, {year}", f"{n} {month} {year}", f"{n}{suffix} {month} {year}",
            f"{month} {n}{suffix}, {year}", f"the {n}{suffix} of {month} {year}", f"{short} {n}, {year}",
            f"{n} {short} {year}", f"{n}-{short}-{year}", f"{month} {n}{suffix}", f"{month} {n}", f"{n} {month}",
            f"{short} {n}", f"{n:02d} {short.upper()} {year}",
        ]  # fmt: skip
        return self.draw.choice(forms)

    def _in_words(self, language: str, day: datetime.date, month: str) -> str:
        n, year = day.day, day.year
        if language in ("es", "pt"):
            return self.draw.choice([f"{n} de {month} de {year}", f"{n} de {month}"])
        if language in ("de", "da", "nb", "fi", "cs"):
            return self.draw.choice([f"{n}. {month} {year}", f"{n:02d}. {month} {year}", f"{n}. {month}"])
        if language == "hu":
            return f"{year}. {month} {n}."
        date = self.draw.choice([f"{n} {month} {year}", f"{n:02d} {month} {year}", f"{n} {month}"])
        if language in ("ru", "pl") and self.draw.chance(0.2):
            date += {"ru": " г.", "pl": " r."}[language]
        return date
