"""Text that can be stored: what PostgreSQL and UTF-8 cannot hold is taken out once, here."""


def storable(text: str) -> str:
    """`text` without NUL, and with every lone surrogate replaced by U+FFFD.

    PostgreSQL holds no NUL in text or jsonb; UTF-8 holds no surrogate. A surrogate pair becomes its character.
    """
    if "\x00" in text:
        text = text.replace("\x00", "")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
