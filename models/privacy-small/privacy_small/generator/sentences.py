"""Sentences: from templates, and real ones (Common Voice) into which names, places and dates are put."""

import re

from ..labels import DATE, PERSON, Segment
from .draw import Draw, Weighted
from .material import CJK, Language, Material
from .slots import Context, Slots

ENGLISH = Weighted({"template": 44, "negative": 16, "real": 24, "plain": 10, "graft": 6})
OTHER = Weighted({"template": 50, "negative": 12, "real": 22, "plain": 9, "graft": 7})
NUMBER_WORDS = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10",
    "eleven": "11", "twelve": "12", "twenty": "20", "thirty": "30", "forty": "40", "fifty": "50", "hundred": "100",
    "thousand": "1000", "million": "10 million", "dozens": "24", "several": "17", "many": "250", "some": "35",
    "few": "8",
}  # fmt: skip
NUMBER_WORD = re.compile(rf"\b({'|'.join(NUMBER_WORDS)})\b")
# Words before a sentence that often stand before a name.
OPENINGS = [
    "Hello ", "Hi ", "Hey ", "Hello, ", "Dear all, ", "Hi all, ", "Hi there, ", "Good morning, ", "Thanks, ", "Ok ",
    "Well, ", "Dear customer, ", "Attention: ", "User: ", "Bot: ", "Note: ",
]  # fmt: skip
FINAL_SIGNS = re.compile(r"[.!?。！？…\"”’]*$")


class Sentences:
    def __init__(self, draw: Draw, material: Material, slots: Slots):
        self.draw = draw
        self.material = material
        self.slots = slots

    def sentence(self, context: Context) -> list[Segment]:
        language = self.material.languages[context.language]
        match (ENGLISH if language.code == "en" else OTHER).pick(self.draw):
            case "template" if language.sentences:
                return self.slots.fill(self.draw.choice(language.sentences), context)
            case "negative" if language.negatives:
                return self.negative(language)
            case "real":
                return self.real(language)
            case "graft" if language.plain:
                return self.graft(language)
        return [(self.plain(language), None)]

    def negative(self, language: Language) -> list[Segment]:
        context = self.slots.context(language.code)
        context.family_names_are_private = False
        return self.slots.fill(self.draw.choice(language.negatives), context)

    def plain(self, language: Language) -> str:
        """A real sentence with nothing private. Digits and capital letters on common words make nothing private."""
        if not language.plain:
            return ""
        text = self.draw.choice(language.plain)
        if language.code == "en" and self.draw.chance(0.03):
            return self.draw.choice(OPENINGS) + text
        return text if language.code in CJK else self._rough(text)

    def _rough(self, text: str) -> str:
        draw = self.draw
        if draw.chance(0.3):
            text = NUMBER_WORD.sub(
                lambda m: NUMBER_WORDS[m[1]] if draw.chance(0.5) else str(draw.number(2, 9999)), text
            )
        style = draw.uniform()
        words = text.split(" ")
        if style < 0.16:
            for _ in range(draw.number(1, 3)):
                at = draw.number(0, len(words) - 1)
                words[at] = words[at].capitalize() if draw.chance(0.7) else words[at].upper()
                if at + 1 < len(words) and draw.chance(0.4):
                    words[at + 1] = words[at + 1].capitalize()
            return " ".join(words)
        if style < 0.20:
            return " ".join(word.capitalize() for word in words)
        return text.upper() if style < 0.22 else text

    def real(self, language: Language) -> list[Segment]:
        """A real sentence with a drawn name where it had a name or a word for a person, or a date for "today"."""
        draw = self.draw
        if language.code == "en" and self.material.about_time and draw.chance(0.1):
            text, (start, end) = draw.choice(self.material.about_time)
            return joined([(text[:start] + "on ", None), (self.slots.dates.date("en"), DATE), (text[end:], None)])
        if language.about_persons and (not language.slotted or draw.chance(0.55)):
            return self._with_names(language)
        if language.slotted:
            return self._filled(draw.choice(language.slotted), language)
        return self.graft(language) if language.plain else []

    def _with_names(self, language: Language) -> list[Segment]:
        text, places = self.draw.choice(language.about_persons)
        if len(places) > 1 and self.draw.chance(0.8):
            places = [self.draw.choice(places)]
        out: list[Segment] = []
        at = 0
        for start, end in places:
            out += [(text[at:start], None), (self.slots.people.name_in_prose(language.code), PERSON)]
            at = end
        return joined([*out, (text[at:], None)])

    def _filled(self, text: str, language: Language) -> list[Segment]:
        """{P} a given name, {F} given and family name, {T} a title and a name, {C} a place."""
        people, out = self.slots.people, []
        for part in re.split(r"(\{[PFTC]\})", text):
            if part == "{T}":
                out.append((people.titled(language.code), PERSON))
            elif part == "{C}":
                out.append((self.slots.places.place(language.code), None))
            elif part == "{P}":
                out.append((people.name_in_prose(language.code), PERSON))
            elif part == "{F}":
                out.append((people.name(people.persona(language.code), language.code), PERSON))
            else:
                out.append((part, None))
        return joined(out)

    def graft(self, language: Language) -> list[Segment]:
        """A real sentence with a place, an organisation or a person put before it or before its final stop."""
        draw, text = self.draw, self.plain(language)
        body_end = FINAL_SIGNS.search(text).start()
        body, stop = text[:body_end], text[body_end:]
        commas = [match.start() for match in re.finditer(", ", body)]
        if commas and draw.chance(0.3):  # somebody is spoken to: "Well, Ann, I do not know."
            at = draw.choice(commas)
            name = self.slots.people.name_in_prose(language.code)
            return joined([(body[:at] + ", ", None), (name, PERSON), (body[at:] + stop, None)])
        after = self._grafted(draw.choice(language.graft_after), language) if draw.chance(0.7) else []
        before: list[Segment] = []
        if not after or draw.chance(0.4):
            before = self._grafted(draw.choice(language.graft_before), language)
            if language.code == "en" and not body.startswith("I") and draw.chance(0.5):
                body = body[:1].lower() + body[1:]
        return joined([*before, (body, None), *after, (stop, None)])

    def _grafted(self, pattern: str, language: Language) -> list[Segment]:
        people, out = self.slots.people, []
        for part in re.split(r"(\{[CON]\})", pattern):
            if part == "{C}":
                out.append((self.slots.places.place(language.code), None))
            elif part == "{O}":
                out.append((self.slots.value("company", self.slots.context(language.code)), None))
            elif part == "{N}":
                out.append((people.name_in_prose(language.code), PERSON))
            else:
                out.append((part, None))
        return out

    def labelled(self) -> list[Segment]:
        """A real text whose persons were labelled by people. Two names in three are replaced by drawn ones."""
        with_persons = self.draw.chance(0.5)
        text, places = self.draw.choice(self.material.labelled_persons if with_persons else self.material.labelled)
        out: list[Segment] = []
        at = 0
        for start, end in places:
            name = text[start:end]
            out += [(text[at:start], None), (self._replaced(name) if self.draw.chance(0.67) else name, PERSON)]
            at = end
        return joined([*out, (text[at:], None)])

    def _replaced(self, name: str) -> str:
        people = self.slots.people
        persona = people.persona("en")
        new = people.name(persona, "en") if " " in name else people.call_name(persona)
        if name.islower():
            return new.lower()
        return new.upper() if name.isupper() and len(name) > 1 else new


def joined(segments: list[Segment]) -> list[Segment]:
    return [segment for segment in segments if segment[0]]
