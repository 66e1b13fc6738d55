"""Dates as people write them in many languages, and as ISO 8601 does: a task without data, whose alignment is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from typing import Any

import numpy as np

from overt.errors import DependencyError
from overt.models import Translator

LOCALES = (
    "en_US", "en_GB", "de", "fr", "es", "it", "pt", "nl", "sv", "da", "nb", "fi",
    "pl", "cs", "ro", "tr", "ru", "el", "id", "zh", "ja", "ko",
)  # fmt: skip
_FIRST, _DAYS = date(1900, 1, 1), 73_049  # to 2099-12-31
# Beside what each locale calls medium, long and full.
_PATTERNS = ("d MMMM y", "d MMM y", "EEEE d MMMM y")
_FIELDS = {"y": "year", "M": "month", "L": "month", "d": "day"}


@dataclass(frozen=True)
class Written:
    """A date: what a person wrote, the ISO form, and where in the text year, month and day stand."""

    text: str
    iso: str
    spans: dict[str, tuple[int, int]]


# Where each field stands in the ISO form.
ISO_SPANS = {"year": (0, 4), "month": (5, 7), "day": (8, 10)}


def accuracy(translator: Translator, drawn: Sequence[Written]) -> dict[str, float]:
    """Shares of dates that are read exactly, and whose every field looks most at where it stands in the text."""
    found = [best for (best,) in translator.translate([one.text for one in drawn], beam=1)]
    exact = [best.translation == one.iso for best, one in zip(found, drawn, strict=True)]
    aligned = []
    for best, one in zip(found, drawn, strict=True):
        peaks = {field: best.alignment[slice(*place)].sum(axis=0).argmax() for field, place in ISO_SPANS.items()}
        aligned.append(all(first <= peaks[field] < last for field, (first, last) in one.spans.items()))
    return {"exact": float(np.mean(exact)), "aligned": float(np.mean(aligned))}


def written(rng: np.random.Generator) -> Written:
    """A random date of 1900 … 2099 in a random locale and form."""
    forms = _forms()
    locale, pattern = forms[int(rng.integers(len(forms)))]
    day = _FIRST + timedelta(days=int(rng.integers(_DAYS)))
    parts = [(kind, value if kind == "chars" else _names(locale, value, day)) for kind, value in pattern]
    lower = bool(rng.random() < 0.3)
    spans: dict[str, tuple[int, int]] = {}
    text = ""
    for (kind, value), (_, code) in zip(parts, pattern, strict=True):
        # Narrow spaces look like others and are read like others.
        piece = value.replace("\u202f", " ").replace("\xa0", " ")
        piece = piece.lower() if lower else piece
        if kind == "field" and code[0] in _FIELDS:
            spans[_FIELDS[code[0]]] = (len(text), len(text) + len(piece))
        text += piece
    return Written(text, day.isoformat(), spans)


def _names(locale: str, code: tuple[str, int], day: date) -> str:
    """One field of a date as a locale writes it."""
    letter, width = code
    if letter in "dy" or (letter in "ML" and width < 3):
        number = {"d": day.day, "y": day.year}.get(letter, day.month)
        return f"{number:0{width}d}"
    return _words(locale, letter, width, day.weekday() if letter in "Ec" else day.month)


@cache
def _words(locale: str, letter: str, width: int, number: int) -> str:
    from babel.dates import DateTimeFormat

    day = date(2024, 1, 1 + number) if letter in "Ec" else date(2024, number, 1)
    return DateTimeFormat(day, locale)[letter * width]


@cache
def _forms() -> tuple[tuple[str, tuple[tuple[str, Any], ...]], ...]:
    """(locale, tokens of a pattern): those that say the whole year and cannot be read in two ways."""
    try:
        from babel import Locale
        from babel.dates import tokenize_pattern
    except ImportError:
        raise DependencyError("training on dates needs Babel: pip install 'overt[torch]'") from None
    found: dict[tuple[str, tuple[tuple[str, Any], ...]], None] = {}
    for name in LOCALES:
        formats = [Locale.parse(name).date_formats[length].pattern for length in ("medium", "long", "full", "short")]
        for pattern in (*formats, *(() if name in ("zh", "ja", "ko") else _PATTERNS)):
            tokens = tuple((kind, value) for kind, value in tokenize_pattern(pattern))
            codes = {str(value[0]): int(value[1]) for kind, value in tokens if kind == "field"}
            numeric = codes.get("M", codes.get("L", 0)) < 3
            # en_US alone has months first, so a number and a slash could mean both; two digits could be two centuries.
            if codes.get("y") == 2 or not set(codes) <= set("yMLdEc") or (numeric and name == "en_US"):
                continue
            found[name, tokens] = None
    return tuple(found)
