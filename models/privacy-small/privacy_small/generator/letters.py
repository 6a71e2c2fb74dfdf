"""Documents that people write to people: prose, mails, signatures, chats."""

from ..labels import ADDRESS, DATE, EMAIL, PERSON, PHONE, URL, Segment
from .draw import Draw
from .material import Material
from .sentences import Sentences, joined
from .slots import Context, Slots

MAIL_HEADERS = [
    ("From: ", "To: ", "Subject: ", "Date: "),
    ("from: ", "to: ", "subject: ", "sent: "),
    ("Von: ", "An: ", "Betreff: ", "Gesendet: "),
    ("De : ", "À : ", "Objet : ", "Date : "),
    ("De: ", "Para: ", "Asunto: ", "Fecha: "),
    ("От: ", "Кому: ", "Тема: ", "Дата: "),
    ("发件人：", "收件人：", "主题：", "日期："),
]
GREETINGS = ["", "", "Hi ", "Hello ", "Dear ", "Hey ", "Good morning ", "@"]
AFTER_GREETING = [",\n", ",\n\n", ":\n", " -\n", "!\n", "\n", " - ", ", ", "...\n"]
SIGN_OFFS = [
    "", "", "Thanks,\n", "Thanks\n", "Thanks, ", "Best, ", "- ", "--", "Cheers, ", "Love, ", "Regards,\n\n",
    "Talk soon,\n", "xoxo ",
]  # fmt: skip
BOTS = ["Bot", "Agent", "Support", "Assistant", "System"]


class Letters:
    def __init__(self, draw: Draw, material: Material, slots: Slots, sentences: Sentences):
        self.draw = draw
        self.material = material
        self.slots = slots
        self.people = slots.people
        self.sentences = sentences

    def prose(self, language: str) -> list[Segment]:
        draw, context = self.draw, self.slots.context(language)
        count = draw.choice([1, 1, 1, 1, 2, 2, 3, 4, 6])
        space = "" if language in ("zh", "ja") else " "
        out: list[Segment] = []
        for i in range(count):
            if i:
                out.append((draw.choice([space, space, "\n", "\n\n"]) if count > 2 else space, None))
            out += self.sentences.sentence(context)
        return out

    def negatives(self, language: str) -> list[Segment]:
        """Nothing private (except where a famous person could stand)."""
        draw, words = self.draw, self.material.languages[language]
        out: list[Segment] = []
        for i in range(draw.choice([1, 1, 2, 3, 5])):
            if i:
                out.append((draw.choice([" ", "\n"]), None))
            if words.negatives and draw.chance(0.55 if language == "en" else 0.3):
                out += self.sentences.negative(words)
            else:
                out.append((self.sentences.plain(words), None))
        return out

    def labelled(self, language: str) -> list[Segment]:
        return self.sentences.labelled()

    def mail(self, language: str) -> list[Segment]:
        draw, sender, receiver = self.draw, self.slots.context(language), self.slots.context(language)
        from_, to, subject, date = draw.choice(MAIL_HEADERS) if draw.chance(0.4) else MAIL_HEADERS[0]
        out = [(from_, None), *self._correspondent(sender), ("\n" + to, None), *self._correspondent(receiver)]
        if draw.chance(0.5):
            out += [("\n" + date, None), (self._mail_date(language), DATE)]
        out.append(("\n" + subject, None))
        if draw.chance(0.35):
            out += self.sentences.sentence(receiver)
        else:
            out.append((self.sentences.plain(self.material.languages[language])[:60], None))
        return [*out, ("\n\n", None), *self.message(language, sender, receiver)]

    def _correspondent(self, context: Context) -> list[Segment]:
        email = (self.people.email(context.persona), EMAIL)
        if not self.draw.chance(0.8):
            return [email]
        opened, closed = self.draw.choice([(" <", ">"), (" <", ">"), (" (", ")")])
        return [(self.people.name(context.persona, context.language), PERSON), (opened, None), email, (closed, None)]

    def _mail_date(self, language: str) -> str:
        dates, numbers = self.slots.dates, self.slots.numbers
        if self.draw.chance(0.6):
            return dates.date(language)
        return dates.day().strftime("%a, %d %b %Y ") + f"{numbers.clock()} +0{self.draw.digits(1)}00"

    def message(self, language: str, sender: Context | None = None, receiver: Context | None = None) -> list[Segment]:
        """The body of a mail: greeting, sentences, and a name or a signature at the end."""
        draw = self.draw
        sender, receiver = sender or self.slots.context(language), receiver or self.slots.context(language)
        out: list[Segment] = []
        if draw.chance(0.5):
            greeting = draw.choice(GREETINGS) if language == "en" else ""
            out += [(greeting, None), (self._call_name(receiver), PERSON)]
            if draw.chance(0.15):
                out += [(draw.choice([" and ", " & ", ", ", "/"]), None)]
                out += [(self._call_name(self.slots.context(language)), PERSON)]
            out.append((draw.choice(AFTER_GREETING), None))
        for _ in range(draw.number(1, 4)):
            out += [*self.sentences.sentence(sender), (draw.choice([" ", "\n", "\n\n"]), None)]
        end = draw.uniform()
        if end < 0.35:
            out += self.signature(language, sender)
        elif end < 0.8:
            name = self._call_name(sender) if draw.chance(0.75) else self.people.name(sender.persona, language)
            out += [(draw.choice(SIGN_OFFS), None), (name, PERSON)]
        return joined(out)

    def _call_name(self, context: Context) -> str:
        name = self.people.call_name(context.persona)
        return name if self.draw.chance(0.93) else name.lower()

    def signature(self, language: str, context: Context | None = None) -> list[Segment]:
        draw = self.draw
        context = context or self.slots.context(language)
        opening = draw.choice(["", "-- \n", "Regards,\n", "Best,\n", "Thanks\n", "> "])
        new_line = "\n> " if opening == "> " else "\n"
        out: list[Segment] = [(opening, None), (self.people.name(context.persona, language), PERSON)]
        kinds = ["job", "company", "phone", "fax", "email", "address", "url", "name"]
        for kind in draw.sample(kinds, draw.number(2, 5)):
            out += [(new_line, None), *self._signature_line(kind, context, new_line)]
        return joined(out)

    def _signature_line(self, kind: str, context: Context, new_line: str) -> list[Segment]:
        draw, slots, persona = self.draw, self.slots, context.persona
        match kind:
            case "job" | "company":
                return [(slots.value(kind, context), None)]
            case "phone":
                before = draw.choice(["Tel: ", "T ", "Phone: ", "Mobile: ", "M: ", "", "Office ", "Desk: "])
                after = draw.choice([" office", " (work)", " mobile"]) if draw.chance(0.1) else ""
                return [(before, None), (slots.numbers.phone(persona.locale), PHONE), (after, None)]
            case "fax":
                return [("Fax: ", None), (slots.numbers.phone(persona.locale), PHONE)]
            case "email":
                return [(draw.choice(["Email: ", "", "E: ", "E-mail:\n"]), None), (self.people.email(persona), EMAIL)]
            case "address":
                address = slots.places.address(persona.locale).replace("\n", new_line)
                return [(draw.choice(["", "Address: ", "", "Address:\n"]), None), (address, ADDRESS)]
            case "url":
                before = draw.choice(["", "Web: ", "Website:\n", "www: "])
                return [(before, None), (self.people.personal_url(persona), URL)]
            case "name" if not persona.one_form:
                return [(f"{persona.first} {persona.last}", PERSON)]
        return []

    def chat(self, language: str) -> list[Segment]:
        draw = self.draw
        speakers = [self.slots.context(language), self.slots.context(language)]
        names = [self.people.call_name(speaker.persona) for speaker in speakers]
        style = [("", ": "), ("", ": "), ("<", "> "), ("[", "] "), ("", ":\n"), ("**", "**: ")]
        before, after = draw.choice(style)
        with_bot = draw.chance(0.2)
        out: list[Segment] = []
        for i in range(draw.number(2, 6)):
            clock = draw.choice(["", "", f"[{self.slots.dates.minutes()}] "])
            if with_bot and i % 2:
                out.append((clock + before + draw.choice(BOTS) + after, None))
            else:
                out += [(clock + before, None), (names[i % 2], PERSON), (after, None)]
            if draw.chance(0.6):
                out += self.sentences.sentence(speakers[i % 2])
            else:
                out.append((self.sentences.plain(self.material.languages[language]), None))
            out.append(("\n", None))
        return joined(out)
