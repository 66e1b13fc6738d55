"""What a text says that a window counts: the query among its keys, or keys besides the query."""

from __future__ import annotations

import re

# In words, and by formulas that take the query away from the number.
_WITH = (
    r"includ|count(ing|s) (it|the query)\b|(?<!not )counted (in|too|as well)\b|with itself"
    r"|(?<!not )itself,? (is |being )?count(s|ed)\b"
    r"|counts (the (query|token) )?itself|itself (is|being) (one|among|part)|itself the (last|first)|\bin total\b"
    r"|\b(its own|the query|the (current|present) \w+)( (key|token|step|position))? (is |being )?"
    r"(among|one of) (them|these|those)\b"
    # Itself included, in other languages.
    r"|\b(compris|comprise|inclusa?|inclus[oe]|compres[oa]|inclu[ií]d[oa]s?|eingeschlossen|mitgezählt|mitgerechnet)\b"
    r"|\b(включая|в том числе|dahil|包括自己|自分も含め|含自身)"
)
_BESIDES = (
    r"besides|exclud|\+ ?1\W{0,4}(keys|tokens|positions)|not (itself )?count|in addition to|plus itself|plus the query"
    r"|without itself|before it\b"
)
# How far away the last one is counts no query, whatever is said to be seen too.
_AWAY = r"\b(away|apart)\b|\b(on|to|at) ((either|each|both) sides?|(the|its) (left|right))\b"
_LESS = (
    r"itself and .{0,28}- ?1\b|- ?1\W{0,4}(tokens?|positions?|keys?) before"
    # Which these are: so many tokens, itself and those before it.
    r"|\b(tokens|positions|keys|words|frames|steps)\W{1,3}itself and (the )?(those|ones|others|rest)\b"
)
# In numbers: 60 are itself and 59 more, or itself and 60; 1 is itself alone, or 0 is.
_PAIR = r"\b(\d+)\b[^.;\d]{0,24}\bitself (?:and|plus|with) [^.;\d]{0,12}(\d+)\b"
_ALONE = r"\b([01])\b[^.;,\d]{0,24}\b(?:(?:only|just) (?:the \w+ )?itself|itself (?:only|alone))\b"


def counted(told: str) -> tuple[bool, bool]:
    """Whether a window is said to count the query, and whether it is said not to; the text is one line, in small."""
    more = {int(one) - int(two) for one, two in re.findall(_PAIR, told)} | {*map(int, re.findall(_ALONE, told))}
    if more & {0, 1}:
        return 1 in more, 0 in more
    if re.search(_LESS, told):
        return True, False
    return bool(re.search(_WITH, told)), bool(re.search(rf"{_BESIDES}|{_AWAY}", told))
