"""The slots of templates: {phone} → a telephone number and its label.

The label policy, decided once and used everywhere:
- private_person: every name of a person, with its title, except those on a list of famous people of the past
- private_date: a date with day and month, unless the context is public (a release, history, a log line); a year, a
  weekday or a time alone is not
- private_address: a street with number and all that is attached to it. A city, a country or a postcode alone is not,
  except as a field of a record
- private_url: links to people (profile, own site, shared file); links to projects and documentation are not
- private_email, private_phone: all
- account_number: bank, card, identity, passport, insurance and customer numbers; numbers of orders, invoices, parcels
  and parts are not, nor are versions, hashes and UUIDs
- secret: passwords, keys, tokens, PINs; placeholders are not
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..labels import ACCOUNT, ADDRESS, DATE, EMAIL, PERSON, PHONE, SECRET, URL, Segment
from .credentials import Credentials
from .dates import Dates
from .draw import HEX, Draw
from .material import Material
from .numbers import Numbers
from .people import People, Persona
from .places import Places
from .template import Part, expand

WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
RELATIONS = "wife husband mother father brother sister son daughter friend".split()
HOLIDAYS = ["25 December", "January 1", "4 July", "July 14", "December 25", "1 May", "3 October"]
PROJECTS = "google microsoft torvalds python rust-lang llvm numpy pytorch nodejs".split()


@dataclass
class Context:
    """What the sentences of one document share."""

    language: str
    persona: Persona
    family_names_are_private: bool = True  # false in sentences about companies: "Miller & Sons"


class Slots:
    def __init__(self, draw: Draw, material: Material):
        self.draw = draw
        self.material = material
        self.people = People(draw, material)
        self.numbers = Numbers(draw, material)
        self.secrets = Credentials(draw, material)
        self.places = Places(draw, material)
        self.dates = Dates(draw, material)
        self.private: dict[str, tuple[str, Callable[[Context], str]]] = self._private_slots()
        self.public: dict[str, Callable[[Context], str]] = {**self._public_numbers(), **self._public_words()}

    def context(self, language: str) -> Context:
        return Context(language, self.people.persona(language))

    def fill(self, parts: list[Part], context: Context) -> list[Segment]:
        return expand(parts, self.draw, lambda name: self.slot(name, context))

    def slot(self, name: str, context: Context) -> Segment:
        if found := self.private.get(name):
            label, make = found
            return make(context), label
        if name in self.public:
            return self.public[name](context), None
        return self._special_slot(name, context)

    def value(self, name: str, context: Context) -> str:
        return self.slot(name, context)[0]

    def _special_slot(self, name: str, context: Context) -> Segment:
        match name:
            case "famous":
                famous = self.draw.chance(0.5)
                return (
                    (self.draw.choice(self.material.words["famous"]), None) if famous else self.slot("person", context)
                )
            case "last":
                persona = self._maybe_other(context, 0.4)
                private = context.family_names_are_private
                return (persona.full if persona.one_form else persona.last), PERSON if private else None
            case "contact":
                return self.slot(self.draw.choice(["phone", "email", "phone", "addr"]), context)
            case "contactaddr":
                return self.slot("addr" if self.draw.chance(0.6) else "email", context)
        raise ValueError(f"a template uses the unknown slot {{{name}}}")

    def _maybe_other(self, context: Context, probability: float) -> Persona:
        return self.people.persona(context.language) if self.draw.chance(probability) else context.persona

    def _person(self, context: Context) -> str:
        context.persona = self._maybe_other(context, 0.15)
        return self.people.name(context.persona, context.language)

    def _other_person(self, context: Context) -> str:
        return self.people.name(self.people.persona(context.language), context.language)

    def _first(self, persona: Persona) -> str:
        name = self.people.call_name(persona)
        return name if self.draw.chance(0.96) else name.lower()

    def _private_slots(self) -> dict[str, tuple[str, Callable[[Context], str]]]:
        people, numbers, secrets, places, dates = self.people, self.numbers, self.secrets, self.places, self.dates
        other = people.persona
        return {
            "person": (PERSON, self._person),
            "person2": (PERSON, self._other_person),
            "first": (PERSON, lambda c: self._first(self._maybe_other(c, 0.3))),
            "first2": (PERSON, lambda c: self._first(other(c.language))),
            "first3": (PERSON, lambda c: self._first(other(c.language))),
            "titled": (PERSON, lambda c: people.titled(c.language)),
            "email": (EMAIL, lambda c: people.email(c.persona)),
            "email2": (EMAIL, lambda c: people.email(other(c.language))),
            "phone": (PHONE, lambda c: numbers.phone(c.persona.locale)),
            "addr": (ADDRESS, lambda c: places.address(c.persona.locale)),
            "street": (ADDRESS, lambda c: places.street(c.persona.locale)),
            "dob": (DATE, lambda c: dates.date(c.language, 1930, 2015)),
            "date": (DATE, lambda c: dates.date(c.language)),
            "account": (ACCOUNT, lambda c: numbers.account()),
            "bankacct": (ACCOUNT, lambda c: numbers.iban() if self.draw.chance(0.6) else numbers.account()),
            "card": (ACCOUNT, lambda c: numbers.card()),
            "ssn": (ACCOUNT, lambda c: numbers.identity()),
            "passport": (ACCOUNT, lambda c: numbers.passport()),
            "policy": (ACCOUNT, lambda c: numbers.policy()),
            "license": (ACCOUNT, lambda c: numbers.policy()),
            "crypto": (ACCOUNT, lambda c: numbers.crypto()),
            "password": (SECRET, lambda c: secrets.password()),
            "apikey": (SECRET, lambda c: secrets.api_key()),
            "pin": (SECRET, lambda c: self.draw.digits(self.draw.number(4, 6))),
            "purl": (URL, lambda c: people.personal_url(c.persona)),
        }

    def _public_numbers(self) -> dict[str, Callable[[Context], str]]:
        draw, numbers = self.draw, self.numbers
        return {
            "year": lambda c: str(draw.number(1750, 2030)),
            "money": lambda c: numbers.money(),
            "order": lambda c: numbers.order(),
            "version": lambda c: numbers.version(),
            "tracking": lambda c: numbers.tracking(),
            "docid": lambda c: numbers.document_id(),
            "sku": lambda c: numbers.sku(),
            "num": lambda c: str(draw.number(*draw.choice([(1, 99), (100, 9999), (2, 20)]))),
            "digit": lambda c: draw.digits(1),
            "age": lambda c: str(draw.number(1, 99)),
            "pct": lambda c: f"{draw.number(1, 99)}%",
            "section": lambda c: ".".join(str(draw.number(1, 20)) for _ in range(draw.number(1, 3))),
            "float": lambda c: f"{draw.choice(['', '-'])}{draw.number(0, 300)}.{draw.digits(draw.number(1, 6))}",
            "sha": lambda c: draw.text(HEX, draw.choice([7, 8, 40])),
            "hash": lambda c: numbers.hash(),
            "uuid": lambda c: numbers.uuid(),
            "ip": lambda c: numbers.ip(),
            "coord": lambda c: f"{draw.number(-89, 89)}.{draw.digits(4)}, {draw.number(-179, 179)}.{draw.digits(4)}",
            "sortcode": lambda c: draw.pattern("##-##-##"),
            "bic": lambda c: draw.pattern("????DE??") + draw.choice(["", "XXX"]),
            "cardexp": lambda c: f"{draw.number(1, 12):02d}/{draw.number(24, 34)}",
            "cvv": lambda c: draw.digits(3),
            "seat": lambda c: draw.pattern("##?"),
            "zip": lambda c: self.places.zip_code(self._locale(c)),
            "time": self._time,
            "pubdate": lambda c: self.dates.date(c.language, 1700, 2032),
            "pubdate2": lambda c: draw.choice(HOLIDAYS),
        }

    def _public_words(self) -> dict[str, Callable[[Context], str]]:
        draw, words, places, us = self.draw, self.material.words, self.places, self.material.us
        return {
            "city": lambda c: places.city(c.language, c.persona.locale),
            "country": lambda c: places.country(c.language, c.persona.locale),
            "state": lambda c: draw.choice(self.material.pools[self._locale(c)].get("state") or ["Ohio"]),
            "company": lambda c: places.company(c.language, c.persona.locale),
            "title": lambda c: places.title(),
            "job": lambda c: draw.choice(us["job"]).lower() if draw.chance(0.7) else draw.choice(us["job"]),
            "bank": lambda c: draw.choice(words["banks"]),
            "product": lambda c: draw.choice(words["products"]),
            "nation": lambda c: draw.choice(words["nations"]),
            "role": lambda c: draw.choice(words["roles"]),
            "Role": lambda c: draw.choice(words["roles"]).capitalize(),
            "weekday": lambda c: draw.choice(WEEKDAYS),
            "relation": lambda c: draw.choice(RELATIONS),
            "pkg": lambda c: draw.choice(us["word"]) + draw.choice(["", "-cli", "js", "-tools"]),
            "handle": lambda c: "@" + self.people.slug(c.persona),
            "ulogin": lambda c: draw.choice(us["login"]),
            "puburl": lambda c: self.public_url(),
            "code": lambda c: self._code(),
        }

    def _locale(self, context: Context) -> str:
        if context.language != "en":
            return context.persona.locale
        return self.draw.choice(self.material.languages["en"].locales)

    def _time(self, context: Context) -> str:
        draw = self.draw
        if context.language != "en":
            return draw.choice([self.dates.minutes(), f"{draw.number(6, 22)}:00", "18:30"])
        return draw.choice(
            [self.dates.minutes(), f"{draw.number(1, 12)} {draw.choice(['am', 'pm'])}", str(draw.number(1, 12))]
        )

    def word(self) -> str:
        return self.draw.choice(self.material.us["word"])

    def public_url(self) -> str:
        """A link that says nothing about a person: documentation, code, a service."""
        draw, word = self.draw, self.word
        owner = draw.choice(PROJECTS) if draw.chance(0.8) else word()
        project = draw.choice([f"{word()}-{word()}", word(), word() + "tools", "lib" + word()])
        company = draw.choice(self.material.words["companies"]).lower()
        return "https://" + draw.choice(
            [
                f"github.com/{owner}/{project}", f"github.com/{owner}/{project}.git",
                f"github.com/{owner}/{project}/issues/{draw.digits(4)}", f"docs.{project}.org/en/latest/",
                f"www.{project}.com/docs/{word()}.html", f"en.wikipedia.org/wiki/{word().capitalize()}",
                f"pypi.org/project/{project}/", f"intranet.example.com/{word()}",
                f"localhost:{draw.digits(4)}/{word()}",
                f"api.{word()}.com/v{draw.digits(1)}/{word()}", f"stackoverflow.com/questions/{draw.digits(8)}",
                f"arxiv.org/abs/{draw.digits(4)}.{draw.digits(5)}", f"status.{word()}.io",
                f"support.{word()}.com/hc/articles/{draw.digits(6)}", f"www.{company}.com/",
                f"cdn.{word()}.net/{word()}.js", f"{project}.readthedocs.io/", f"www.{word()}{word()}.com/{word()}",
            ]
        )  # fmt: skip

    def _code(self) -> str:
        draw, word = self.draw, self.word
        return draw.choice(
            [
                f"{word()}_{word()} == {draw.digits(2)}",
                f"{word()}.{word()}({draw.digits(1)}, '{word()}')",
                f"(i = 0; i < {draw.digits(3)}; ++i) {word()}[i] = 0;",
                f"len({word()}) > {draw.digits(2)}:",
                f'"{word()} {word()}: %d" % {word()}',
                f"self.{word()} = {word()}({word()}={draw.digits(1)})",
            ]
        )
