"""The yardstick: what rules alone find. Regular expressions, checksums, words before a value, lists of names.

rules = Rules(Path("inputs"))      # the lists are those of pools.json.gz
rules("Call Ann Lee at 555-0134")  # [(5, 12, "private_person"), (16, 24, "private_phone")]
"""

import re
from pathlib import Path

from .generator.material import CJK, POOL_FILE, read_json_gz
from .labels import ACCOUNT, ADDRESS, DATE, EMAIL, PERSON, PHONE, SECRET, URL, Span

MONTH = (
    r"(?:jan(?:uary|uar)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz|apr(?:il)?|may|mai|june?|juni|july?|juli|aug(?:ust)?"
    r"|sep(?:t|tember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?)\.?"
)
DATE_PATTERN = re.compile(
    rf"\b(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}(?:[T ]\d\d:\d\d(?::\d\d)?)?"
    rf"|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?{MONTH}(?:,?\s+\d{{4}})?"
    rf"|{MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?)\b"
    r"|\d{4}年\d{1,2}月\d{1,2}日|\d{4}년 ?\d{1,2}월 ?\d{1,2}일",
    re.I,
)
EMAIL_PATTERN = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
URL_PATTERN = re.compile(r"\b(?:https?://|www\.)[^\s<>\"'|]+[^\s<>\"'|.,;:!?)]")
PUBLIC_URL = re.compile(
    r"github\.com/[\w-]+/[\w.-]+|docs?\.|wikipedia|pypi\.org|intranet|localhost|api\.|stackoverflow|arxiv", re.I
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?\b")
CARD = re.compile(r"\b\d(?:[ -]?\d){12,18}\b")
BEFORE_CARD = re.compile(r"card|visa|amex|cc\b|account", re.I)
SOCIAL_SECURITY = re.compile(r"\b\d{3}-\d{2}-\d{4}\b")
NAMED_ACCOUNT = re.compile(
    r"(?:account(?: number| no\.?)?|acct|a/c|card(?: number| #)?|iban|ssn|social security number"
    r"|passport(?: number| no\.?)?|licen[sc]e(?: number| no\.?)?|insurance(?: policy| number)?"
    r"|policy(?: number| no\.?)?|member id|tax id|kontonummer|kundennummer)"
    r"\s*(?:is|:|=|#|no\.?)?\s*([A-Z0-9][A-Z0-9 .-]{4,28}\d)",
    re.I,
)
PHONE_PATTERN = re.compile(
    r"(?<![\w.])(?:\+\d{1,3}[ .-]?)?(?:\(\d{1,5}\)[ .-]?)?\d{1,5}(?:[ .()-]{1,2}\d{2,5}){1,5}"
    r"(?:\s?(?:x|ext\.?)\s?\d{1,5})?(?![\w])|(?<!\w)\+\d{8,14}\b|(?<!\w)0\d{8,12}\b"
)
KNOWN_KEY = re.compile(
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bgh[pous]_\w{30,}|\bsk[-_](?:proj-|ant-|live_|test_)?[\w-]{20,}"
    r"|\bxox[bp]-[\w-]{20,}|\bAIza[\w-]{30,}|\bglpat-[\w-]{15,}|\beyJ[\w-]+\.[\w-]+\.[\w-]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]+?-----END [A-Z ]*PRIVATE KEY-----"
)
NAMED_SECRETS = [
    re.compile(
        r"(?:pass(?:word|wd|code|phrase)?|pwd?|secret|token|api[_ -]?key|pin|kennwort|passwort|contraseña|mot de passe)"
        r"[\"']?\s*(?:is|:|=|lautet|ist)\s*[\"']?([^\s\"',;]{4,})",
        re.I,
    ),
    re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD|_PASS)\s*=\s*[\"']?([^\s\"']{6,})"),
]
PLACEHOLDER = re.compile(r"[<$*{%x]|your|changeme", re.I)
STREET = re.compile(
    r"\b\d{1,6}[A-Za-z]?(?: \d{1,4})? (?:[A-ZÀ-Ý][\w'’.-]+ ){1,4}?(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr"
    r"|Boulevard|Blvd|Court|Ct|Place|Pl|Way|Square|Sq|Close|Terrace|Parkway|Pkwy|Highway|Hwy|Crescent|Mews|Row|Walk"
    r"|Hill|Gardens|Grove|Park|Green|View|Path|Plaza|Loop|Trail|Circle|Alley)\b\.?"
    r"(?:,? (?:Apt|Suite|Unit|Flat)\.? ?\w+)?"
    r"(?:,? [A-ZÀ-Ý][\w'’.-]+(?: [A-ZÀ-Ý][\w'’.-]+)?)?(?:,? [A-Z]{2})?(?: \d{5}(?:-\d{4})?)?"
    r"|\b(?:ul\.|rue|via|viale|piazza|calle|avenida|av\.|rua|ул\.|пр\.|οδός|strada|boulevard|chemin|rúa|c/|plaza|paseo)"
    r"\s[^\n,;]{3,40},? ?\d{1,4}[^\n;]{0,40}"
    r"|\b[A-ZÄÖÜ][\wäöüß-]+(?:straße|strasse|str\.|weg|gasse|platz|allee|ring|straat|laan|gatan|vägen|gade|vej|veien|gata"
    r"|katu|tie|utca) ?\d{1,4}[a-z]?(?:, ?\d{4,5} [A-ZÄÖÜ][\wäöüß-]+)?",
    re.I,
)
TITLE = r"(?:Mr|Mrs|Ms|Dr|Prof|Miss|Sir|Herr|Frau|Mme|Sr|Sra|Sig)\.?"
CAPITALISED = r"[A-ZÀ-ÝŁŚŻČŠŽĐΑ-ΩА-Я][\w'’-]+"
TITLED_NAME = re.compile(rf"\b{TITLE}\s+({CAPITALISED}(?: {CAPITALISED})?)")
TITLES_BEFORE = re.compile(rf"(?:{TITLE}\s*)+$")
INTRODUCED_NAME = re.compile(
    r"(?:my name is|i am|i'm|this is|name:|from:|to:|dear|hi|hello|mr\.|patient|contact|signed|author:|user:|customer:)"
    rf"\s+((?:{CAPITALISED})(?: {CAPITALISED}){{0,2}})"
)
WORD = re.compile(r"[^\W\d_][\w'’-]*")
BETWEEN_NAMES = (" ", "-", ". ", " d'")
PARTICLES = ("van", "de", "von", "der", "da", "la", "del", "di")
# Given names that are more often something else.
NOT_NAMES = set(
    """
    May Will Art Mark August April June Summer Rose Grace Hope Joy Faith Royal Major Prince King North South West East
    Street Park Hill Green Brown White Black Young Long Day Price Rich Best Good Love Berlin Paris London Rome Page Case
    Power Bush Church Wood Field Rice Bean Bell Ball Stone The This That See Please Invoice Contact Subject From
    """.split()
)


def passes_luhn(number: str) -> bool:
    """The checksum of card numbers."""
    digits = [int(c) for c in number if c.isdigit()][::-1]
    return (sum(digits[0::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


def without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "’s")) else word


class Found:
    """Spans that do not overlap; the first one stays."""

    def __init__(self):
        self.spans: list[tuple[int, int, str | None]] = []

    def add(self, start: int, end: int, category: str | None) -> None:
        if end > start and not any(a < end and start < b for a, b, _ in self.spans):
            self.spans.append((start, end, category))


class Rules:
    def __init__(self, inputs: Path):
        self.first: set[str] = set()
        cjk: set[str] = set()
        for locale, pool in read_json_gz(inputs / POOL_FILE).items():
            if locale[:2] in CJK:
                cjk.update(pool["name"])
            elif locale != "places":
                self.first.update(name for name in pool["first"] if len(name) > 2)
        self.cjk_names = re.compile("|".join(sorted(map(re.escape, cjk), key=lambda name: (-len(name), name))))

    def __call__(self, text: str) -> list[Span]:
        found = Found()
        self._links_and_secrets(text, found)
        self._numbers(text, found)
        self._persons(text, found)
        return sorted(span for span in found.spans if span[2])

    def _links_and_secrets(self, text: str, found: Found) -> None:
        for match in KNOWN_KEY.finditer(text):
            found.add(*match.span(), SECRET)
        for match in EMAIL_PATTERN.finditer(text):
            found.add(*match.span(), EMAIL)
        for match in URL_PATTERN.finditer(text):  # a public link stays in the list, so that nothing is found inside it
            found.add(*match.span(), None if PUBLIC_URL.search(match[0]) else URL)
        for pattern in NAMED_SECRETS:
            for match in pattern.finditer(text):
                if not PLACEHOLDER.match(match[1]):
                    found.add(*match.span(1), SECRET)

    def _numbers(self, text: str, found: Found) -> None:
        for match in IBAN.finditer(text):
            found.add(*match.span(), ACCOUNT)
        for match in CARD.finditer(text):
            before = text[max(0, match.start() - 40) : match.start()]
            if passes_luhn(match[0]) or BEFORE_CARD.search(before):
                found.add(*match.span(), ACCOUNT)
        for match in SOCIAL_SECURITY.finditer(text):
            found.add(*match.span(), ACCOUNT)
        for match in DATE_PATTERN.finditer(text):
            found.add(*match.span(), DATE)
        for match in NAMED_ACCOUNT.finditer(text):
            found.add(*match.span(1), ACCOUNT)
        for match in STREET.finditer(text):
            found.add(*match.span(), ADDRESS)
        for match in PHONE_PATTERN.finditer(text):
            version = re.fullmatch(r"\d+\.\d+(\.\d+)*", match[0])
            if 7 <= sum(c.isdigit() for c in match[0]) <= 15 and not version:
                found.add(*match.span(), PHONE)

    def _persons(self, text: str, found: Found) -> None:
        for match in self.cjk_names.finditer(text):
            found.add(*match.span(), PERSON)
        words = list(WORD.finditer(text))
        at = 0
        while at < len(words):
            name = without_possessive(words[at][0])
            if not (name[:1].isupper() and name in self.first and name not in NOT_NAMES):
                at += 1
                continue
            start, end = words[at].start(), words[at].start() + len(name)
            last = at + 1
            while last < len(words) and last - at <= 3 and self._continues(text, words, last):
                end = words[last].start() + len(without_possessive(words[last][0]))
                last += 1
            titles = TITLES_BEFORE.search(text[:start])
            found.add(titles.start() if titles else start, end, PERSON)
            at = last
        for match in TITLED_NAME.finditer(text):
            found.add(*match.span(), PERSON)
        for match in INTRODUCED_NAME.finditer(text):
            found.add(*match.span(1), PERSON)

    @staticmethod
    def _continues(text: str, words: list[re.Match], at: int) -> bool:
        """Whether the word belongs to the name that the words before it began."""
        between = text[words[at - 1].end() : words[at].start()]
        return between in BETWEEN_NAMES and (words[at][0][:1].isupper() or words[at][0] in PARTICLES)
