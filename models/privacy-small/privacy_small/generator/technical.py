"""Documents that machines write or read: logs, configuration with secrets, code."""

import re

from ..labels import ACCOUNT, EMAIL, PERSON, PHONE, SECRET, Segment
from .draw import HEX, Draw, Weighted
from .material import Material
from .sentences import Sentences, joined
from .slots import Slots
from .template import slots_of

LOG_LINES = Weighted({"mail": 22, "person": 14, "token": 14, "payment": 6, "call": 6, "plain": 38})
CONFIG = "env env shell connection key code login ini sentence pair".split()
VARIABLES = "API_KEY TOKEN SECRET PASSWORD SECRET_KEY ACCESS_KEY_ID PASS AUTH_TOKEN KEY".split()
PLAIN_VARIABLES = "DEBUG HOST LOG_LEVEL REGION NODE_ENV MAX_CONN".split()
SHELL = [
    ("curl -H 'Authorization: Bearer ", "' https://api.example.com/v1"), ('curl -H "X-Api-Key: ', '" http://localhost:8080/'),
    ("docker login -u ci -p ", ""), ("mysql -u root -p", " shop"), ("sshpass -p ", " ssh user@host"),
    ("git push https://oauth2:", "@github.com/acme/app.git"), ("aws configure set aws_secret_access_key ", ""),
    ("gh auth login --with-token ", ""),
]  # fmt: skip


class Technical:
    def __init__(self, draw: Draw, material: Material, slots: Slots, sentences: Sentences):
        self.draw = draw
        self.material = material
        self.slots = slots
        self.sentences = sentences
        english = material.languages["en"]
        with_secret = [t for t in english.sentences if slots_of(t) & {"password", "apikey"}]
        self.secret_sentences = with_secret or english.sentences

    # ---- logs

    def log(self, language: str) -> list[Segment]:
        draw, slots = self.draw, self.slots
        levels = ["INFO", "WARN", "ERROR", "DEBUG", "[info]", "level=info", "E", f"host sshd[{draw.digits(4)}]:"]
        context = slots.context("en")
        out: list[Segment] = []
        for _ in range(draw.number(1, 4)):
            out.append((f"{self._stamp()} {draw.choice(levels)} ", None))
            out += [*self._log_line(LOG_LINES.pick(draw), context), ("\n", None)]
        return joined(out)

    def _stamp(self) -> str:
        day, clock = self.slots.dates.day(2015, 2027), self.slots.numbers.clock()
        forms = [
            f"{day} {clock}", f"{day}T{clock}.{self.draw.digits(3)}Z", day.strftime("%b %d ") + clock,
            day.strftime("[%d/%b/%Y:") + f"{clock} +0000]",
        ]  # fmt: skip
        return self.draw.choice(forms)

    def _log_line(self, kind: str, context) -> list[Segment]:
        draw, slots = self.draw, self.slots
        choice, source = draw.choice, f" from {slots.numbers.ip()}"
        match kind:
            case "mail":
                starts = ["login failed for user ", "password reset requested by ", "sent mail to ", "new signup: "]
                end = choice(["", source, f" ({draw.digits(3)} ms)"])
                return [(choice(starts), None), (slots.people.email(context.persona), EMAIL), (end, None)]
            case "person":
                start = choice(["user ", "customer=", "created account for ", "name="])
                end = choice(["", f" id={draw.digits(5)}", " logged in", " deleted"])
                return [(start, None), (slots.people.name(context.persona, "en"), PERSON), (end, None)]
            case "token":
                starts = ["auth token=", "Authorization: Bearer ", "using api_key=", "X-Api-Key: ", "cookie: sid="]
                return [
                    (choice(starts), None),
                    (slots.secrets.api_key(), SECRET),
                    (choice(["", " accepted", source]), None),
                ]
            case "payment":
                start = choice(["charged card ", "payment from ", "refund to "])
                number = slots.numbers.card() if draw.chance(0.5) else slots.numbers.iban()
                return [(start, None), (number, ACCOUNT), (f" amount={draw.number(1, 999)}.{draw.digits(2)}", None)]
            case "call":
                start = choice(["sms sent to ", "call from ", "dialing "])
                return [(start, None), (slots.numbers.phone(context.persona.locale), PHONE)]
        return [(self._plain_line(), None)]

    def _plain_line(self) -> str:
        draw, slots = self.draw, self.slots
        return draw.choice(
            [
                f"GET /{slots.word()}/{draw.digits(3)} HTTP/1.1 {draw.choice(['200', '404', '500'])} {draw.digits(4)}",
                f"request {slots.numbers.uuid()} took {draw.digits(3)}ms",
                f"connection from {slots.numbers.ip()} port {draw.digits(5)}",
                f"build {slots.numbers.version()} commit {draw.text(HEX, 7)} ok",
                f"retry {draw.digits(1)} of {draw.digits(1)}",
                f"disk usage {draw.digits(2)}% on /dev/sd{draw.choice('abc')}1",
                f"worker {draw.digits(2)} started pid={draw.digits(5)}",
                f"Traceback (most recent call last): KeyError: '{slots.word()}'",
            ]
        )

    # ---- configuration

    def config(self, language: str) -> list[Segment]:
        draw, secrets = self.draw, self.slots.secrets
        match draw.choice(CONFIG):
            case "env":
                return self._variables(["", "", "export ", "set "], "=", upper=True)
            case "ini":
                return self._variables([""], draw.choice([" = ", ": "]), upper=draw.chance(0.5))
            case "shell":
                before, after = draw.choice(SHELL)
                return [(before, None), (secrets.any(), SECRET), (after if draw.chance(0.7) else "", None)]
            case "connection":
                return self._connection()
            case "key":
                return [(draw.choice(["", "key:\n", "id_rsa\n"]), None), (secrets.private_key(), SECRET)]
            case "code":
                return self._assignment()
            case "login":
                return self._login()
            case "pair":
                name = draw.choice(["pass: ", "pwd=", "PIN: ", "secret: ", "token ", "Passphrase: ", "passcode "])
                return [(name, None), (secrets.any(), SECRET)]
        return self.slots.fill(draw.choice(self.secret_sentences), self.slots.context("en"))

    def _variables(self, starts: list[str], equals: str, upper: bool) -> list[Segment]:
        draw, out = self.draw, []
        case = str.upper if upper else str.lower
        for _ in range(draw.number(1, 4)):
            if not draw.chance(0.65):
                out.append((self._plain_variable(equals, case) + "\n", None))
                continue
            owner = draw.choice([self.slots.word() + "_", "", "AWS_", "DB_", "GITHUB_", "OPENAI_", "STRIPE_", "SLACK_"])
            quote = draw.choice(["", "", '"', "'"])
            secret = self.slots.secrets.any() if draw.chance(0.4) else self.slots.secrets.api_key()
            name = draw.choice(starts) + case(owner + draw.choice(VARIABLES)) + equals + quote
            out += [(name, None), (secret, SECRET), (quote + "\n", None)]
        return out

    def _plain_variable(self, equals: str, case) -> str:
        draw = self.draw
        values = {
            "API_KEY": ["<your-key>", "changeme", "xxxx", "", "${KEY}"],
            "PASSWORD": ["********", "<password>", "", "${DB_PASS}"],
            "PORT": [draw.digits(4)],
            "VERSION": [self.slots.numbers.version()],
            "GIT_COMMIT": [draw.text(HEX, 40)],
            **dict.fromkeys(PLAIN_VARIABLES, ["true", "0", "localhost", "info", "eu-west-1", "production"]),
        }
        name = draw.choice(list(values))
        return case(name) + equals + draw.choice(values[name])

    def _connection(self) -> list[Segment]:
        draw = self.draw
        scheme = draw.choice(["postgres", "mysql", "mongodb+srv", "redis", "amqp", "ftp"])
        user = draw.choice(["admin", "app", "root", "user", draw.choice(self.material.us["login"])])
        host = draw.choice(["localhost", "db.internal", "cluster0.example.net", "10.0.0.5"])
        password = re.sub(r"[@/: ]", "x", self.slots.secrets.password())
        end = f"@{host}:{draw.digits(4)}/{self.slots.word()}"
        return [(f"{scheme}://{user}:", None), (password, SECRET), (end, None)]

    def _assignment(self) -> list[Segment]:
        draw = self.draw
        keyword = draw.choice(["const ", "let ", "", "self.", "static const char* "])
        name = draw.choice("apiKey token password SECRET client_secret auth_token db_password".split())
        quote = draw.choice(['"', "'"])
        end = quote + draw.choice([";", "", "  # remove before release"])
        return [(f"{keyword}{name} = {quote}", None), (self.slots.secrets.any(), SECRET), (end, None)]

    def _login(self) -> list[Segment]:
        draw = self.draw
        user: Segment = (draw.choice(self.material.us["login"]), None)
        if draw.chance(0.6):
            user = (self.slots.people.email(self.slots.people.persona("en")), EMAIL)
        before = draw.choice(["username: ", "user: ", "login: ", "Benutzer: ", "usuario: ", "Login\n"])
        between = draw.choice(["\npassword: ", "\npw: ", " / pass: ", "\nPasswort: ", "\ncontraseña: ", ", password "])
        return [(before, None), user, (between, None), (self.slots.secrets.password(), SECRET)]

    # ---- code

    def code(self, language: str) -> list[Segment]:
        if self.material.code and self.draw.chance(0.6):
            return [(self.draw.choice(self.material.code), None)]
        english = self.material.languages["en"]
        return [*self.sentences.negative(english), ("\n", None), *self.sentences.negative(english)]
