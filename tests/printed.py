"""Compare a computed value with a number as a table prints it."""


def shown(value, text):
    """True when value, rounded to the digits that text prints, is text."""
    text = text.replace(",", "")
    digits = len(text.split(".")[1]) if "." in text else 0
    return f"{value:.{digits}f}" == text


def check(value, text):
    assert shown(value, text), f"{value!r} is not {text}"
