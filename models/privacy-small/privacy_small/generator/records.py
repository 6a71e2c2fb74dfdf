"""Documents with fields: forms, JSON, CSV, XML, SQL, tables, lists of people."""

from collections.abc import Callable

from ..labels import ACCOUNT, ADDRESS, DATE, EMAIL, PERSON, PHONE, Segment
from .draw import HEX, Draw
from .material import Material
from .sentences import joined
from .slots import Context, Slots

# The kinds of value, by the names that languages/*.toml uses, and the slot that fills each.
FIELD_SLOTS = {
    "email": "email", "phone": "phone", "address": "addr", "birth_date": "dob", "date": "date", "account": "account",
    "card": "card", "url": "purl", "company": "company",
}  # fmt: skip
KEYS = {
    "person": "name full_name user fullName customer contact author owner",
    "first": "first_name firstName given_name",
    "last": "last_name lastName surname",
    "email": "email mail e_mail emailAddress contact_email",
    "phone": "phone tel mobile phoneNumber phone_number",
    "address": "address street addr shipping_address home_address",
    "birth_date": "dob birth_date dateOfBirth birthday",
    "date": "date admitted appointment_date hired_on",
    "account": "account account_no ssn accountNumber passport member_id tax_id",
    "iban": "iban IBAN",
    "card": "card card_number cc pan",
    "secret": "password passwd token api_key secret apiKey access_token client_secret auth",
    "url": "website profile homepage profile_url",
    "city": "city town",
    "company": "company org employer",
    "zip": "zip postcode",
}
KEYS = {kind: names.split() for kind, names in KEYS.items()}
KINDS = list(KEYS)
PLAIN_WORDS = "open closed high low yes no n/a pending EUR USD en sales IT A+ active male female".split()
PLAIN_VALUES = "active true false null new en de basic premium".split()
FORMATS = "json json jsonl csv csv yaml xml sql tsv python html query".split()
TABLES = [
    ("Name", "Phone", "City"), ("Name", "E-mail", "Date"), ("Employee", "DOB", "Salary"),
    ("Customer", "Order", "Total"), ("Name", "Address", "Zip"),
]  # fmt: skip
TABLE_SLOTS = {
    "Name": "person", "Employee": "person", "Customer": "person", "Phone": "phone", "City": "city", "E-mail": "email",
    "Date": "date", "DOB": "dob", "Salary": "money", "Order": "order", "Total": "money", "Address": "addr",
    "Zip": "zip",
}  # fmt: skip

Cell = tuple[str, str, str | None]  # key, value, label


class Records:
    def __init__(self, draw: Draw, material: Material, slots: Slots):
        self.draw = draw
        self.material = material
        self.slots = slots
        self.people = slots.people
        self.plain_fields = self._plain_fields()
        self.plain_keys = self._plain_keys()

    # ---- values

    def _value(self, kind: str, context: Context) -> Segment:
        persona = context.persona
        match kind:
            case "person":
                return self.people.name(persona, context.language, in_form=True), PERSON
            case "first":
                return persona.first, PERSON
            case "last":
                return persona.last, PERSON
            case "iban":
                return self.slots.numbers.iban(), ACCOUNT
            case "secret":
                return self.slots.secrets.any(), "secret"
            case "city" | "zip":  # alone they are not private; as a field of a person's record they are
                return self.slots.value(kind, context), ADDRESS
        return self.slots.slot(FIELD_SLOTS[kind], context)

    def _plain_fields(self) -> dict[str, Callable[[], str]]:
        """Fields of forms that hold nothing private."""
        draw, numbers, words = self.draw, self.slots.numbers, self.material.words
        plain = lambda: draw.choice(PLAIN_WORDS) if draw.chance(0.94) else self.slots.word()
        return {
            **dict.fromkeys(["Order", "Invoice no.", "Reference", "Ticket"], numbers.order),
            **dict.fromkeys(["Version", "Build"], numbers.version),
            **dict.fromkeys(["Amount", "Total"], numbers.money),
            **dict.fromkeys(["Status", "Priority", "Department", "Currency", "Type", "Notes", "Language"], plain),
            **dict.fromkeys(["Gender", "Blood type", "Password hint"], plain),
            "Qty": lambda: draw.digits(2),
            "Country": lambda: draw.choice(self.material.us["country"]),
            "Product": lambda: draw.choice(words["products"]),
            "Serial": lambda: draw.pattern("SN-####-????"),
            "Year": lambda: str(draw.number(1950, 2030)),
            "Commit": lambda: draw.text(HEX, 8),
            "Time": self.slots.dates.minutes,
            "Tracking": numbers.tracking,
        }

    def _plain_keys(self) -> dict[str, Callable[[], str]]:
        """Keys of records that hold nothing private."""
        draw, numbers = self.draw, self.slots.numbers
        price = lambda: f"{draw.number(1, 999)}.{draw.digits(2)}"
        plain = lambda: draw.choice(PLAIN_VALUES)
        stamp = lambda: self.slots.dates.day(2000, 2026).isoformat() + draw.choice(" T") + numbers.clock()
        return {
            **dict.fromkeys(["status", "type", "lang", "enabled"], plain),
            **dict.fromkeys(["amount", "price"], price),
            **dict.fromkeys(["created_at", "updated_at"], stamp),
            "id": lambda: draw.digits(draw.number(1, 6)),
            "version": numbers.version,
            "order_id": numbers.order,
            "sku": numbers.sku,
            "uuid": numbers.uuid,
            "hash": numbers.hash,
            "count": lambda: draw.digits(2),
            "country": lambda: draw.choice(self.material.us["country"]),
            "url": self.slots.public_url,
            "page": lambda: draw.digits(1),
        }

    # ---- forms

    def form(self, language: str) -> list[Segment]:
        draw, context = self.draw, self.slots.context(language)
        fields = self.material.languages[language].fields
        between = draw.choice([": ", ": ", ":", " : ", "：", " - ", " = ", "\t", ":\n", " | "])
        end = draw.choice(["\n", "\n", "\n", "; ", ", ", "\n\n", " "])
        bullet = draw.choice(["", "", "", "- ", "* ", "**", "• "])
        capitals = draw.chance(0.15)
        out: list[Segment] = []
        if draw.chance(0.32):
            out.append((draw.choice(["", "", "# ", "## ", "*** ", "== "]) + self.slots.places.title() + "\n", None))
        kinds = draw.sample(KINDS, draw.number(2, 8))
        for i, kind in enumerate(kinds):
            if draw.chance(0.2):
                name, value = self._pick(self.plain_fields)
                out.append((bullet + name + between + value + end, None))
            name = draw.choice(fields[kind])
            value, label = self._value(kind, context)
            if label == ADDRESS and end != "\n":
                value = value.replace("\n", ", ")
            name = bullet + (name.upper() if capitals else name) + ("**" if bullet == "**" else "") + between
            out += [(name, None), (value, label), (end if i + 1 < len(kinds) else "", None)]
        return joined(out)

    def _pick(self, makers: dict[str, Callable[[], str]]) -> tuple[str, str]:
        name = self.draw.choice(list(makers))
        return name, makers[name]()

    # ---- records

    def records(self, language: str) -> list[Segment]:
        draw = self.draw
        columns = [(draw.choice(KEYS[kind]), kind) for kind in draw.sample(KINDS, draw.number(1, 5))]
        columns += [(name, None) for name in draw.sample(list(self.plain_keys), draw.number(0, 3))]
        draw.random.shuffle(columns)
        row = lambda: self._row(columns, self.slots.context(language))
        match draw.choice(FORMATS):
            case "json":
                return self._json(row(), '"', draw.choice(["", "", "\n  "]))
            case "python":
                return self._json(row(), "'", "")
            case "jsonl":
                rows = [self._json(row(), '"', "") for _ in range(draw.number(1, 2))]
                return [segment for one in rows for segment in [*one, ("\n", None)]]
            case "csv":
                return self._csv(columns, row, draw.choice([",", ";", ",", "|", ", "]))
            case "tsv":
                return self._csv(columns, row, "\t")
            case "yaml":
                return self._yaml(row())
            case "xml":
                return self._xml(row())
            case "html":
                return self._html(row())
            case "sql":
                return self._sql(columns, row())
        return self._query(row())

    def _row(self, columns: list[tuple[str, str | None]], context: Context) -> list[Cell]:
        cells = []
        for name, kind in columns:
            value, label = (self.plain_keys[name](), None) if kind is None else self._value(kind, context)
            cells.append((name, value.replace("\n", ", ").replace('"', "'"), label))
        return cells

    def _json(self, row: list[Cell], quote: str, new_line: str) -> list[Segment]:
        colon = self.draw.choice([": ", ":"])
        out: list[Segment] = [("{" + new_line, None)]
        for i, (name, value, label) in enumerate(row):
            comma = "," + (new_line or " ") if i else ""
            out += [(f"{comma}{quote}{name}{quote}{colon}{quote}", None), (value, label), (quote, None)]
        return [*out, (("\n" if new_line else "") + "}", None)]

    def _csv(self, columns: list, row: Callable[[], list[Cell]], comma: str) -> list[Segment]:
        draw, out = self.draw, []
        if draw.chance(0.7):
            out.append((comma.join(name for name, _ in columns) + "\n", None))
        quote_all = draw.chance(0.3)
        for _ in range(draw.number(1, 4)):
            for i, (_, value, label) in enumerate(row()):
                quote = '"' if quote_all or (comma.strip() and comma.strip() in value) else ""
                out += [((comma if i else "") + quote, None), (value, label), (quote, None)]
            out.append(("\n", None))
        return joined(out)

    def _yaml(self, row: list[Cell]) -> list[Segment]:
        indent, out = self.draw.choice(["", "  ", "- "]), []
        for name, value, label in row:
            quote = self.draw.choice(["", "", '"', "'"])
            out += [(f"{indent}{name}: {quote}", None), (value, label), (quote + "\n", None)]
        return out

    def _xml(self, row: list[Cell]) -> list[Segment]:
        out: list[Segment] = [("<record>", None)]
        for name, value, label in row:
            out += [(f"<{name}>", None), (value, label), (f"</{name}>" + self.draw.choice(["", "\n"]), None)]
        return [*out, ("</record>", None)]

    def _html(self, row: list[Cell]) -> list[Segment]:
        out: list[Segment] = []
        for name, value, label in row:
            before, after = self.draw.choice(
                [(f"<td>{name}</td><td>", "</td>"), (f"<li><b>{name}</b>: ", "</li>"), ("<td>", "</td>"),
                 (f'<input name="{name}" value="', '">')]
            )  # fmt: skip
            out += [(before, None), (value, label), (after + self.draw.choice(["", "\n"]), None)]
        return out

    def _sql(self, columns: list, row: list[Cell]) -> list[Segment]:
        table = self.draw.choice(["users", "customers", "people", "accounts"])
        out = [(f"INSERT INTO {table} ({', '.join(name for name, _ in columns)}) VALUES (", None)]
        for i, (_, value, label) in enumerate(row):
            out += [((", " if i else "") + "'", None), (value.replace("'", ""), label), ("'", None)]
        return [*out, (");", None)]

    def _query(self, row: list[Cell]) -> list[Segment]:
        start = ["https://api.example.com/v1/users?", "GET /login?", "POST /signup ", "curl -d '", "params: "]
        out: list[Segment] = [(self.draw.choice(start), None)]
        for i, (name, value, label) in enumerate(row):
            if label not in (ADDRESS, None):
                value = value.replace(" ", self.draw.choice(["+", "%20", " "]))
            out += [(("&" if i else "") + name + "=", None), (value, label)]
        return out

    # ---- lists of people

    def listing(self, language: str) -> list[Segment]:
        kinds = [self._git_log, self._card, self._names, self._names, self._table, self._envelope, self._line]
        return joined(self.draw.choice(kinds)(language))

    def _git_log(self, language: str) -> list[Segment]:
        draw, out = self.draw, []
        for _ in range(draw.number(1, 2)):
            persona = self.people.persona("en")
            day = self.slots.dates.day(2008, 2027)
            stamp = day.strftime("%a %b %d ") + f"{self.slots.numbers.clock()} {day.year} +0200"
            message = f"{draw.choice(['Fix', 'Add', 'Remove', 'Update'])} {self.slots.word()} {self.slots.word()}"
            out += [(f"commit {draw.text(HEX, 40)}\nAuthor: ", None), (self.people.name(persona, "en"), PERSON)]
            out += [(" <", None), (self.people.email(persona), EMAIL)]
            out.append((f">\nDate:   {stamp}\n\n    {message}\n\n", None))
        return out

    def _card(self, language: str) -> list[Segment]:
        persona = self.people.persona(language)
        return [
            ("BEGIN:VCARD\nVERSION:3.0\nFN:", None), (self.people.name(persona, language), PERSON),
            ("\nTEL;TYPE=CELL:", None), (self.slots.numbers.phone(persona.locale), PHONE),
            ("\nEMAIL:", None), (self.people.email(persona), EMAIL), ("\nEND:VCARD", None),
        ]  # fmt: skip

    def _names(self, language: str) -> list[Segment]:
        draw, count = self.draw, self.draw.number(2, 5)
        heads = [
            "Attendees: ",
            "Authors: ",
            "Participants: ",
            "Present: ",
            "The team: ",
            "Thanks to ",
            "Invited: ",
            "CC: ",
        ]
        out: list[Segment] = [(draw.choice(heads + [""]), None)]
        for i in range(count):
            last = i + 1 == count and draw.chance(0.6)
            if i:
                out.append((draw.choice([" and ", ", and ", " & "] if last else [", ", ", ", "; "]), None))
            persona = self.people.persona(language)
            full = draw.chance(0.7)
            out.append((self.people.name(persona, language) if full else self.people.call_name(persona), PERSON))
        return [*out, (draw.choice(["", ".", " were invited.", " joined the call."]), None)]

    def _table(self, language: str) -> list[Segment]:
        head = self.draw.choice(TABLES)
        out: list[Segment] = [("| " + " | ".join(head) + " |\n|---|---|---|\n", None)]
        for _ in range(self.draw.number(1, 3)):
            context = self.slots.context(language)
            for name in head:
                value, label = self.slots.slot(TABLE_SLOTS[name], context)
                label = ADDRESS if name in ("City", "Zip") else label
                out += [("| ", None), (value.replace("\n", ", "), label), (" ", None)]
            out.append(("|\n", None))
        return out

    def _envelope(self, language: str) -> list[Segment]:
        draw, context = self.draw, self.slots.context(language)
        company = "\n" + self.slots.value("company", context) + "\n"
        out: list[Segment] = [(draw.choice(["", "To:\n", "Ship to:\n", "Bill to: ", "c/o "]), None)]
        out += [
            (self.people.name(context.persona, language), PERSON),
            (draw.choice(["\n", "\n\n", ", ", company]), None),
        ]
        out.append((self.slots.places.address(context.persona.locale), ADDRESS))
        if draw.chance(0.3):
            out += [("\n", None), (self.slots.numbers.phone(context.persona.locale), PHONE)]
        return out

    def _line(self, language: str) -> list[Segment]:
        draw, slots, persona = self.draw, self.slots, self.people.persona(language)
        parts = [
            (self.people.name(persona, language), PERSON), (slots.numbers.phone(persona.locale), PHONE),
            (self.people.email(persona), EMAIL), (slots.places.address(persona.locale).replace("\n", ", "), ADDRESS),
            (slots.dates.date(language, 1930, 2010), DATE), (slots.numbers.account(), ACCOUNT),
        ]  # fmt: skip
        between = draw.choice([" / ", " - ", ", ", " | ", "; ", " · "])
        out: list[Segment] = []
        for i, part in enumerate(draw.sample(parts, draw.number(2, 4))):
            out += [(between if i else "", None), part]
        return out
