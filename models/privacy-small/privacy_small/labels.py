"""The eight kinds of personal data and the 33 labels of a token, in the order of openai/privacy-filter."""

ACCOUNT = "account_number"
ADDRESS = "private_address"
DATE = "private_date"
EMAIL = "private_email"
PERSON = "private_person"
PHONE = "private_phone"
URL = "private_url"
SECRET = "secret"

CATEGORIES = [ACCOUNT, ADDRESS, DATE, EMAIL, PERSON, PHONE, URL, SECRET]

# Begin, Inside, End of a span of several tokens; Single: a span of one token.
LABELS = ["O"] + [f"{tag}-{category}" for category in CATEGORIES for tag in "BIES"]
BEGIN, INSIDE, END, SINGLE = range(4)

# A piece of a generated document, and the kind of personal data that it is (None: it is not).
Segment = tuple[str, str | None]
# Start, end (in characters) and category.
Span = tuple[int, int, str]


def label_id(category: str, tag: int) -> int:
    """The id of a label: label_id(EMAIL, BEGIN) == 13."""
    return 1 + 4 * CATEGORIES.index(category) + tag


def tag_of(label: int) -> int | None:
    """BEGIN, INSIDE, END or SINGLE; None for O."""
    return None if label == 0 else (label - 1) % 4


def category_of(label: int) -> str:
    return CATEGORIES[(label - 1) // 4]
