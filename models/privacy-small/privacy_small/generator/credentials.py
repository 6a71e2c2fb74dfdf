"""Secrets: passwords, keys and tokens in the forms of well-known services, private keys."""

import string

from .draw import ALPHANUMERIC, HEX, Draw
from .material import Material

WELL_KNOWN = "qwerty letmein admin hunter dragon iloveyou sunshine passw0rd Welcome Summer Winter".split()
LOOKALIKES = {"a": "@", "e": "3", "o": "0", "i": "1", "s": "$"}
URL_SAFE = ALPHANUMERIC + "-_"


class Credentials:
    def __init__(self, draw: Draw, material: Material):
        self.draw = draw
        self.words = material.us["word"]
        self.first_names = material.us["first"]

    def password(self) -> str:
        draw = self.draw
        word = draw.choice(self.words)
        kind = draw.uniform()
        if kind < 0.30:
            mark = draw.choice("!@#$%^&*?_-+=." + "    ").strip()
            return word.capitalize() + draw.choice(["", "", "_", "-", "."]) + draw.digits(draw.number(1, 4)) + mark
        if kind < 0.55:
            return draw.text(ALPHANUMERIC + "!@#$%^&*()_+", draw.number(8, 18))
        if kind < 0.68:
            return draw.choice("-_.").join(draw.choice(self.words) for _ in range(draw.number(3, 4)))
        if kind < 0.76:
            letters = word + draw.choice(self.words)
            return "".join(draw.choice([c, c.upper(), LOOKALIKES.get(c, c)]) for c in letters) + draw.digits(2)
        if kind < 0.84:
            return draw.text(string.ascii_lowercase + string.digits, draw.number(6, 14))
        if kind < 0.92:
            return (
                draw.choice(self.first_names).lower() + draw.digits(draw.choice([2, 4])) + draw.choice(["", "!", "#"])
            )
        return draw.choice(WELL_KNOWN) + draw.digits(draw.number(1, 4)) + draw.choice(["", "!", "?"])

    def api_key(self) -> str:
        return self.draw.choice(KEY_FORMS)(self.draw) if self.draw.chance(0.94) else self.password()

    def any(self) -> str:
        return self.password() if self.draw.chance(0.5) else self.api_key()

    def private_key(self) -> str:
        draw = self.draw
        kind = draw.choice(["RSA ", "EC ", "OPENSSH ", ""])
        rows = [draw.text(ALPHANUMERIC + "+/", draw.number(30, 64)) for _ in range(draw.number(2, 3))]
        return "\n".join([f"-----BEGIN {kind}PRIVATE KEY-----", *rows, "-----END PRIVATE KEY-----"])


def _aws(draw: Draw) -> str:
    alphabet = string.ascii_uppercase + ("234567" if draw.chance(0.6) else "")
    return draw.choice(["AKIA", "ASIA"]) + draw.text(alphabet, 16)


def _json_web_token(draw: Draw) -> str:
    head, body = draw.text(ALPHANUMERIC, draw.number(8, 26)), draw.text(ALPHANUMERIC, draw.number(20, 50))
    return f"eyJhbGciOi{head}.eyJ{body}.{draw.text(URL_SAFE, draw.number(20, 43))}"


def _prefixed(prefixes: str, low: int, high: int, alphabet: str = ALPHANUMERIC):
    choices = prefixes.split()
    return lambda draw: draw.choice(choices) + draw.text(alphabet, draw.number(low, high))


def _license(draw: Draw) -> str:
    return "-".join(draw.text(string.ascii_uppercase + string.digits, 5) for _ in range(draw.number(3, 5)))


KEY_FORMS = [
    _aws,
    _prefixed("ghp_ gho_ ghs_", 36, 36),
    lambda draw: "sk-" + draw.text(ALPHANUMERIC, draw.choice([32, 48, 24])),
    _prefixed("sk-proj- sk-ant-api03- sk_live_ sk_test_ pk_live_ rk_live_", 20, 48),
    lambda draw: f"xoxb-{draw.digits(11)}-{draw.digits(12)}-{draw.text(ALPHANUMERIC, 24)}",
    _prefixed("AIza", 35, 35, URL_SAFE),
    _prefixed("glpat-", 20, 20, URL_SAFE),
    _json_web_token,
    lambda draw: draw.text(HEX, draw.choice([32, 40, 64])),
    lambda draw: draw.text(ALPHANUMERIC + "+/", 40),
    lambda draw: f"SG.{draw.text(URL_SAFE, 22)}.{draw.text(URL_SAFE, 43)}",
    _prefixed("npm_ hf_ dop_v1_ pypi- shpat_ key- tok_ whsec_", 24, 40),
    lambda draw: draw.text(ALPHANUMERIC, draw.number(20, 40)),
    lambda draw: draw.text(string.ascii_lowercase + string.digits, draw.number(24, 40)),
    _license,
]
