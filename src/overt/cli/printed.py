"""JSON as commands print it."""

from __future__ import annotations

import json
from typing import Any


def in_json(value: Any) -> str:
    """One line: letters of every script as they are; what a terminal would obey, or UTF-8 lacks, is spelled out."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
