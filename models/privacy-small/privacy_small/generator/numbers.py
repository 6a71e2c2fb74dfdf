"""Numbers: account numbers of all kinds, telephone numbers, and those that are nobody's secret (orders, versions)."""

import re
import string

from .draw import DIGITS, HEX, Draw
from .material import Material

PHONE_PATTERNS = [
    "+1 (###) ###-####", "(###) ###-####", "###-###-####", "###.###.####", "+1-###-###-####x###", "1-800-###-####",
    "+44 20 #### ####", "07### ######", "+44 7### ######", "+49 1## #######", "0### #######", "+49 (0)## ########",
    "+33 # ## ## ## ##", "0# ## ## ## ##", "+34 ### ### ###", "6## ## ## ##", "+39 3## ### ####", "06 #######",
    "+31 6 ########", "06-########", "+46 70 ### ## ##", "070-### ## ##", "+47 ### ## ###", "### ## ###",
    "+48 ### ### ###", "### ### ###", "+7 (9##) ###-##-##", "8 9## ### ## ##", "+30 69# ### ####",
    "+90 5## ### ## ##", "+86 1## #### ####", "1##########", "+81 90-####-####", "090-####-####", "03-####-####",
    "+82 10-####-####", "010-####-####", "+91 ##### #####", "9#########", "+55 (##) 9####-####", "(##) ####-####",
    "+61 4## ### ###", "04## ### ###", "+41 ## ### ## ##", "+353 8# ### ####", "00## ### #######", "### ####",
    "#### ####", "+### ## ### ####", "+##########", "+############", "## ## ## ##", "#### ######",
]  # fmt: skip
ACCOUNT_PATTERNS = [
    "####-####-####", "##-####-#######-##", "### ### ###", "####-###-######", "########-##", "###-######-#",
    "##-######", "##########/####",
]  # fmt: skip
IDENTITY_PATTERNS = [
    "###-##-####", "###-##-####", "### ## ####", "?? ## ## ## ?", "??######?", "###.###.###-##", "######-####",
    "######/####", "###########", "#########", "########?", "## ### ### ###", "??????##?##?###?",
]  # fmt: skip
POLICY_PATTERNS = [
    "????##############", "??######", "?########", "???-#######", "#########?", "##########", "??-####-####",
    "########", "?##-###-###", "??#########", "?#############", "#######", "MRN-#######", "P########",
    "HI ### ### ###", "????????##########",
]  # fmt: skip
PASSPORT_PATTERNS = ["?########", "#########", "??#######", "?#######", "C0#?#?#??#", "## ## ######"]
IBAN_COUNTRIES = "DE FR GB ES IT NL AT CH PL SE GR PT BE NO TR".split()
BASE58 = string.ascii_letters + string.digits
BECH32 = "023456789acdefghjklmnpqrstuvwxyz"


class Numbers:
    def __init__(self, draw: Draw, material: Material):
        self.draw = draw
        self.pools = material.pools
        self.locales = material.locales
        self.iban_locales = [name for name in material.locales if self.pools[name].get("iban")]

    def _vary(self, value: str, probability: float) -> str:
        return re.sub(r"\d", lambda m: self.draw.choice(DIGITS) if self.draw.chance(probability) else m[0], value)

    def phone(self, locale: str) -> str:
        draw = self.draw
        if self.pools[locale].get("phone") and draw.chance(0.5):
            return self._vary(draw.choice(self.pools[locale]["phone"]), 0.6)
        value = draw.pattern(draw.choice(PHONE_PATTERNS))
        if draw.chance(0.06):
            value += draw.choice([" ext. ", " x", "x", " ext "]) + draw.digits(draw.number(2, 4))
        return value

    def card(self) -> str:
        draw = self.draw
        length = draw.choice([16, 16, 16, 16, 15, 14, 13, 19])
        number = draw.choice("4453346") + draw.digits(length - 1)
        if draw.chance(0.45):
            return number
        if length == 15:
            return f"{number[:4]} {number[4:10]} {number[10:]}"
        return draw.choice(" -").join(number[i : i + 4] for i in range(0, length, 4))

    def iban(self) -> str:
        draw = self.draw
        model = draw.choice(self.pools[draw.choice(self.iban_locales)]["iban"])
        country = draw.choice(IBAN_COUNTRIES) if draw.chance(0.88) else model[:2]
        letters = string.ascii_uppercase
        rest = "".join(draw.choice(DIGITS) if c.isdigit() else draw.choice(letters) for c in model[4:])
        number = country + draw.digits(2) + rest
        return " ".join(number[i : i + 4] for i in range(0, len(number), 4)) if draw.chance(0.35) else number

    def identity(self) -> str:
        """Social security, tax and identity numbers."""
        if self.draw.chance(0.4):
            return self.draw.pattern(self.draw.choice(IDENTITY_PATTERNS))
        pool = self.pools[self.draw.choice(self.locales)]
        return self._vary(self.draw.choice(pool.get("ssn", ["123-45-6789"])), 0.7)

    def policy(self) -> str:
        return self.draw.pattern(self.draw.choice(POLICY_PATTERNS))

    def passport(self) -> str:
        return self.draw.pattern(self.draw.choice(PASSPORT_PATTERNS))

    def crypto(self) -> str:
        draw = self.draw
        kind = draw.number(0, 2)
        if kind == 0:
            return "bc1q" + draw.text(BECH32, 38)
        return "0x" + draw.text(HEX, 40) if kind == 1 else draw.choice("13") + draw.text(BASE58, 33)

    def account(self) -> str:
        kind = self.draw.uniform()
        if kind < 0.35:
            return self.draw.digits(self.draw.number(7, 14))
        if kind < 0.45:
            return self.draw.pattern(self.draw.choice(ACCOUNT_PATTERNS))
        if kind < 0.58:
            return self.iban()
        if kind < 0.72:
            return self.card()
        return self.identity() if kind < 0.85 else self.policy()

    # ---- nobody's secret

    def version(self) -> str:
        draw = self.draw
        parts = ".".join(str(draw.number(0, 20)) for _ in range(draw.number(2, 4)))
        return draw.choice(["", "", "v"]) + parts + draw.choice(["", "", "", "-rc1", "-beta", "b2"])

    def order(self) -> str:
        patterns = [
            "#" * self.draw.number(3, 9),
            "INV-####",
            "#####-##",
            "??-#####",
            "ORD#######",
            "20##-####",
            "#" * 10,
        ]
        return self.draw.pattern(self.draw.choice(patterns))

    def tracking(self) -> str:
        patterns = [
            "1Z###?#########", "??#########DE", "JD##################", "############", "###-#######-#######",
            "00############",
        ]  # fmt: skip
        return self.draw.pattern(self.draw.choice(patterns))

    def document_id(self) -> str:
        patterns = [
            "978-#-##-######-#", "####-####", "10.####/####.#####", "US########", "ISO #####", "####", "20##-#####",
            "EN #####-#",
        ]  # fmt: skip
        return self.draw.pattern(self.draw.choice(patterns))

    def sku(self) -> str:
        patterns = ["??-####", "###-###-##", "?####?", "########", "SN#?#?####", "##-???-###"]
        return self.draw.pattern(self.draw.choice(patterns))

    def money(self) -> str:
        draw = self.draw
        forms = ["#", "##", "###", "####", "###.##", "##.##", "##,###", "###,##", "#.###,##", "#.##"]
        amount = draw.choice("123456789") + draw.pattern(draw.choice(forms))[1:]
        before = ["$", "€", "£", "¥"]
        after = [" €", " EUR", " USD", " euros", " dollars", " Kč", " zł", " kr", " TL", " руб."]
        return draw.choice(before) + amount if draw.chance(0.3) else amount + draw.choice(after)

    def uuid(self) -> str:
        return "-".join(self.draw.text(HEX, length) for length in (8, 4, 4, 4, 12))

    def hash(self) -> str:
        return self.draw.text(HEX, self.draw.choice([32, 40, 64]))

    def ip(self) -> str:
        return ".".join(str(self.draw.number(0, 255)) for _ in range(4))

    def clock(self) -> str:
        return f"{self.draw.number(10, 23)}:{self.draw.number(10, 59)}:{self.draw.number(10, 59)}"
