"""The page's one script, from its modules."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from overt.errors import ArgumentError

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function\*?|class|const) (\w+)", re.MULTILINE)
# Whole lines alone: what stands behind code, or in a string, stays.
_COMMENT = re.compile(r"^\s*(?://.*|/\*\*(?:[^*]|\*(?!/))*\*/)\n", re.MULTILINE)
# Types within a line, which nothing else begins like.
_TYPE = re.compile(r"/\*\* @(?:type|param)\b[^*]*\*/ ?")


@cache
def bundled(entry: str) -> str:
    """A module with everything that it imports, each module a scope of its own, what it needs before it.

    Comments, types and indentation stay behind.  Raises ArgumentError for modules that import each other in a circle.
    """
    done: list[str] = []
    pieces = ['"use strict";\n']

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ArgumentError(f"modules import each other: {' → '.join((*above, name))}")
        if name in done:
            return
        text = _TYPE.sub("", _COMMENT.sub("", (files("overt.views.page") / f"{name}.js").read_text("utf-8")))
        taken = []
        for names, module in _IMPORT.findall(text):
            visit(module, (*above, name))
            taken.append(f"const {{{' '.join(names.split())}}} = {module}_js;\n")
        given = ", ".join(found for _, found in _EXPORT.findall(text))
        body = _EXPORT.sub(r"\1 \2", _IMPORT.sub("", text))
        body = re.sub(r"^\s+", "", body, flags=re.MULTILINE)
        pieces.append(f"const {name}_js = (() => {{\n{''.join(taken)}{body}return {{ {given} }};\n}})();\n")
        done.append(name)

    visit(entry, ())
    return "".join(pieces)
