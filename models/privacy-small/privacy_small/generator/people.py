"""People: names in many forms, and what is made from a name (e-mail addresses, logins, personal links)."""

import re
import string
import unicodedata
from dataclasses import dataclass

from .draw import ALPHANUMERIC, Draw, Weighted
from .material import CJK, Material

MAIL_HOSTS = (
    "gmail.com yahoo.com hotmail.com outlook.com example.com example.org example.net icloud.com proton.me web.de "
    "gmx.de orange.fr libero.it mail.ru qq.com 163.com naver.com aol.com live.com googlemail.com t-online.de"
).split()
TOP_DOMAINS = "com org net io de fr it es nl se pl ru cz eu co.uk com.br ch at be dk no fi gr tr us info me dev".split()
SYLLABLES = (
    "ba be bi bo bu ka ke ki ko ku da de di do du la le li lo lu ma me mi mo mu na ne ni no nu ra re ri ro ru sa se si "
    "so su ta te ti to tu va ve vi vo ya yo za ze zi zo sha che cho gra bri tra dor mar len vin nor sten berg witz sky "
    "ov ian ez os ard el an en on ar er ik ul"
).split()
# Invented names are made of Latin syllables; they would be wrong in these.
OTHER_SCRIPTS = ("ar_AA", "fa_IR", "he_IL", "hi_IN", "th_TH", "ka_GE")
CYRILLIC = dict(
    zip(
        "абвгдеёжзийклмнопрстуфхцчшщъыьэюяіїєґ",
        "a b v g d e e zh z i y k l m n o p r s t u f kh ts ch sh shch  y  e yu ya i yi ye g".split(" "),
    )
)
GREEK = dict(zip("αβγδεζηθικλμνξοπρσςτυφχψω", "a v g d e z i th i k l m n x o p r s s t y f ch ps o".split()))
LETTERS_WITHOUT_DECOMPOSITION = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "ß": "ss", "ı": "i", "æ": "ae", "Æ": "Ae", "đ": "d", "Đ": "D"}
)

NAME_FORMS = Weighted(
    {
        "first last": 60,
        "first initial last": 7,
        "first middle last": 4,
        "initial last": 3,
        "double last": 3,
        "last, first": 3,
        "first": 6,
        "title last": 4,
        "title first last": 4,
        "suffix": 2,
        "particle": 2,
        "last": 2,
    }
)
# In running text people are also named by one word.
PROSE_FORMS = Weighted({"first": 40, "last": 7, "any": 53})


@dataclass
class Persona:
    locale: str
    language: str  # of the name's script: names of CJK people have one form, `full`
    first: str
    last: str
    full: str | None = None

    @property
    def one_form(self) -> bool:
        return self.language in CJK


def without_accents(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return kept.translate(LETTERS_WITHOUT_DECOMPOSITION)


def transliterate(text: str) -> str:
    """Cyrillic and Greek letters as Latin ones; accents removed."""
    out = []
    for character in without_accents(text):
        low = character.lower()
        latin = CYRILLIC.get(low, GREEK.get(low, low))
        out.append(latin.capitalize() if character != low else latin)
    return "".join(out)


def ascii_word(text: str) -> str:
    return re.sub("[^a-z]", "", transliterate(text).lower())


def invented_word(draw: Draw) -> str:
    return "".join(draw.choice(SYLLABLES) for _ in range(draw.number(2, 3))).capitalize()


class People:
    def __init__(self, draw: Draw, material: Material):
        self.draw = draw
        self.material = material
        self.pools = material.pools

    def persona(self, language: str) -> Persona:
        locale = self._locale(language)
        persona = self._drawn(locale)
        if locale in ("en_XX", "xx_XX"):  # pools of names alone: the person still lives somewhere
            persona.locale = self.draw.choice(self._english()) if self.draw.chance(0.6) else self._any_locale()
            persona.language = "en"
        elif persona.one_form:
            self._write_cjk(persona, language)
        elif persona.language in ("ru", "uk", "bg", "el"):
            if language not in ("ru", "uk", "el") and self.draw.chance(0.55):
                persona.first, persona.last = transliterate(persona.first), transliterate(persona.last)
        elif self.pools[locale]["name"] and self.draw.chance(0.12):
            persona.full = self.draw.choice(self.pools[locale]["name"])
        if self.draw.chance(0.08):
            persona.first, persona.last = without_accents(persona.first), without_accents(persona.last)
        return persona

    def _english(self) -> list[str]:
        return self.material.languages["en"].locales

    def _any_locale(self) -> str:
        return self.draw.choice(self.material.locales)

    def _locale(self, language: str) -> str:
        if language != "en":
            own = self.draw.chance(0.88)
            return self.draw.choice(self.material.languages[language].locales if own else self._english())
        kind = self.draw.uniform()
        if kind < 0.26:
            return "en_XX"
        if kind < 0.34:
            return "xx_XX"
        return self.draw.choice(self._english()) if kind < 0.55 else self._any_locale()

    def _drawn(self, locale: str) -> Persona:
        language = locale[:2]
        if self.draw.chance(0.08) and language not in CJK and locale not in OTHER_SCRIPTS:
            return Persona(locale, language, invented_word(self.draw), invented_word(self.draw))
        pool = self.pools[locale]
        return Persona(locale, language, self.draw.choice(pool["first"]), self.draw.choice(pool["last"]))

    def _write_cjk(self, persona: Persona, language: str) -> None:
        pool = self.pools[persona.locale]
        if language != persona.language and pool.get("romanized_name") and self.draw.chance(0.7):
            persona.full = self.draw.choice(pool["romanized_name"])
            words = persona.full.split()
            persona.first, persona.last, persona.language = words[0], words[-1], "en"
        elif pool["name"] and self.draw.chance(0.5):
            persona.full = self.draw.choice(pool["name"])
        else:
            space = " " if persona.language == "ja" and self.draw.chance(0.6) else ""
            persona.full = persona.last + space + persona.first

    def name(self, persona: Persona, language: str, in_form: bool = False) -> str:
        """A name in one of many forms. "Last, First" only in forms: in prose it would join two people of a list."""
        if persona.full and (persona.one_form or self.draw.chance(0.8)):
            return persona.full
        name = self._formed(persona, language, in_form)
        case = self.draw.uniform()
        if case < 0.03:
            return name.upper()
        return name.lower() if case < 0.06 else name

    def _formed(self, persona: Persona, language: str, in_form: bool) -> str:
        draw, pool = self.draw, self.pools[persona.locale]
        first, last = persona.first, persona.last
        if persona.locale.startswith("hu") and draw.chance(0.5):
            first, last = last, first
        match NAME_FORMS.pick(draw):
            case "first initial last":
                return f"{first} {draw.choice(string.ascii_uppercase)}{draw.choice(['.', '.', ''])} {last}"
            case "first middle last":
                return f"{first} {draw.choice(pool['first'])} {last}"
            case "initial last":
                return f"{first[0]}. {last}"
            case "double last":
                return f"{first} {last}-{draw.choice(pool['last'])}"
            case "last, first" if in_form:
                return f"{last}, {first}"
            case "first":
                return first
            case "last":
                return last
            case "title last":
                return f"{self.title(language)} {last}"
            case "title first last":
                return f"{self.title(language)} {first} {last}"
            case "suffix":
                return f"{first} {last}" + draw.choice([" Jr.", " Sr.", " III", " PhD", " MD"])
            case "particle":
                return f"{first} {draw.choice(['van', 'de', 'von', 'da', 'van der', 'de la', 'bin', 'al'])} {last}"
        return f"{first} {last}"

    def title(self, language: str) -> str:
        own = self.material.languages[language].titles
        return self.draw.choice(own or self.material.languages["en"].titles)

    def titled(self, language: str) -> str:
        persona = self.persona(language)
        if persona.one_form:
            return persona.full
        name = persona.last if self.draw.chance(0.6) else f"{persona.first} {persona.last}"
        return f"{self.title(language)} {name}"

    def call_name(self, persona: Persona) -> str:
        """What a friend writes."""
        return persona.full if persona.one_form else persona.first

    def name_in_prose(self, language: str) -> str:
        persona = self.persona(language)
        form = PROSE_FORMS.pick(self.draw)
        if form == "any" or persona.one_form:
            return self.name(persona, language)
        return persona.first if form == "first" else persona.last

    def slug(self, persona: Persona) -> str:
        """The part of a login or link that is made from the name."""
        draw, us = self.draw, self.material.us
        first, last = ascii_word(persona.first), ascii_word(persona.last)
        if len(first) < 2:
            first = ascii_word(draw.choice(us["first"]))
        if len(last) < 2:
            last = ascii_word(draw.choice(us["last"]))
        forms = [
            f"{first}.{last}", f"{first}{last}", f"{first[0]}{last}", f"{first}_{last}", f"{last}.{first}",
            f"{first}{draw.digits(2)}", f"{last}{draw.digits(3)}", f"{first}-{last}", f"{first}.{last}{draw.digits(2)}",
            first, last, f"{first[0]}.{last}",
        ]  # fmt: skip
        return draw.choice(forms)

    def domain(self) -> str:
        draw, us = self.draw, self.material.us
        one, two = (ascii_word(draw.choice(us["word"] if draw.chance(0.5) else us["last"])) for _ in range(2))
        return draw.choice([one + two, one, f"{one}-{two}", one + draw.digits(1)]) + "." + draw.choice(TOP_DOMAINS)

    def email(self, persona: Persona) -> str:
        draw, us = self.draw, self.material.us
        if draw.chance(0.6):
            user = self.slug(persona)
        else:
            ascii_first = persona.first.encode("ascii", "ignore").decode()
            user = draw.choice(
                [
                    draw.choice(us["login"]),
                    draw.text(string.ascii_lowercase, 5) + draw.digits(2),
                    ascii_first + draw.choice(us["last"]),
                    draw.choice(["info", "office", "kontakt", "hr", "me", "mail"]),
                ]
            )
        user = re.sub(r"[^A-Za-z0-9._+\-]", "", user) or "user" + draw.digits(3)
        if draw.chance(0.06):
            user += "+" + draw.choice(["news", "shop", "test", "tag"])
        if draw.chance(0.1):
            user = "".join(word.capitalize() for word in re.split(r"[._]", user))
        host = draw.choice(MAIL_HOSTS) if draw.chance(0.6) else self.domain()
        return f"{user}@{draw.choice(['mail.', 'cs.', 'corp.']) if draw.chance(0.05) else ''}{host}"

    def personal_url(self, persona: Persona) -> str:
        """A link to a person: a profile, an own site, a shared file."""
        draw = self.draw
        slug, word = self.slug(persona), ascii_word(persona.last)
        scheme = draw.choice(["https://", "https://www.", "http://www.", "http://", "www.", "https://"])
        host = f"{word}.{draw.choice(TOP_DOMAINS)}" if word and draw.chance(0.5) else self.domain()
        kind = draw.uniform()
        if kind < 0.30:
            return (
                f"{draw.choice(['https://', 'http://'])}{draw.choice(['www.', ''])}{host}{draw.choice(['/', '/', ''])}"
            )
        if kind < 0.55:
            return scheme + draw.choice(profile_paths(slug))
        if kind < 0.75:
            return scheme + host + draw.choice(site_paths(slug, draw))
        if kind < 0.85:
            shares = "drive.google.com/file/d/ www.dropbox.com/s/ 1drv.ms/u/ photos.app.goo.gl/ we.tl/t-".split()
            return "https://" + draw.choice(shares) + draw.text(ALPHANUMERIC, draw.number(8, 28))
        if kind < 0.93:
            words = "".join(draw.choice(self.material.us["word"]).capitalize() for _ in range(2))
            return (
                f"{draw.choice(['https://', 'http://'])}{words}.{draw.choice(TOP_DOMAINS)}{draw.choice(['/', '', '/'])}"
            )
        return scheme + host


def profile_paths(slug: str) -> list[str]:
    return [
        f"linkedin.com/in/{slug}", f"facebook.com/{slug}", f"instagram.com/{slug}/", f"github.com/{slug}",
        f"twitter.com/{slug}", f"x.com/{slug}", f"t.me/{slug}", f"youtube.com/@{slug}", f"{slug}.blogspot.com/",
        f"medium.com/@{slug}", f"vk.com/{slug}", f"{slug}.wordpress.com", f"flickr.com/photos/{slug}",
    ]  # fmt: skip


def site_paths(slug: str, draw: Draw) -> list[str]:
    return [
        f"/~{slug}", f"/users/{slug}", f"/profile/{slug}", f"/team/{slug}.html", f"/people/{draw.digits(5)}",
        f"/u/{draw.digits(6)}", "/about-me", "/blog/", "/photos/", f"/cv/{slug}.pdf",
    ]  # fmt: skip
