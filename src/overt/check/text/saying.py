"""What is said of a callable: its documentation and comments, without its code, and its code without these."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from overt.check.text import shapes
from overt.check.text.comments import about, behind, texts
from overt.check.text.roles import Argument


class Said:
    """The texts of one callable."""

    name: str
    description: dict[str, Any]
    arguments: list[Argument]
    overrides: dict[str, str]
    by_role: dict[str, Argument]

    def has(self, *roles: str) -> bool:
        """Whether there are arguments of these roles."""
        return all(r in self.by_role for r in roles)

    @cached_property
    def prose(self) -> str:
        """Documentation and comments alone, in lower case."""
        return self.described.lower()

    @property
    def promise(self) -> str:
        """Its name and its first sentence, which say what it is, in lower case."""
        return self.name.lower() + " " + re.split(r"\.\s|\n\s*\n", self.prose, maxsplit=1)[0]

    @cached_property
    def described(self) -> str:
        """Documentation and comments alone."""
        source, method = self.description["source"], self.description.get("method")
        # What is said where that is defined which is called is said of it first.
        given = "" if method is None else self.description.get("body", "")
        own = {self.name, *(method or "").split(" then ")}
        beside = about([a.name for a in self.arguments], self.description.get("told", ""), own)
        said = [[self.description["doc"]], texts(given), texts(source), beside]
        return "\n\n".join("\n".join(some) for some in said if some)

    @cached_property
    def shaped(self) -> str:
        """Documentation and comments; what stands behind an argument, or where it is kept, is about that argument."""
        source = self.description["source"]
        # What has height and width at its end is an image.
        sides = re.findall(r"\b(h\w*), *(w\w*) *= *(\w+)\.shape\[-2:\]", source, re.IGNORECASE)
        images = [f"{name} (B, C, {high}, {wide})" for high, wide, name in sides]
        whole = r"\b(?:\w+), *(h\w*), *(w\w*), *(c\w*|d\w*) *= *(\w+)\.(?:shape|size\(\))"
        named = re.findall(whole, source + self.description.get("reached", ""), re.IGNORECASE)
        images += [f"{name} (B, {high}, {wide}, {last})" for high, wide, last, name in named]
        # What is projected and then split, with nothing but its length before the heads, has no samples.
        split = re.findall(r"\((\w+) @ [^()\n]+\)\.(?:reshape|view)\((\w+)(?:, *[^(),\n]+){2}\)", source)
        rows = [f"{name} ({n}, {name}_dim)" for name, n in split
                if re.search(rf"\b{n}\b[^=\n]*=[^\n]*\b(?:{name}\.shape\[0\]|len\({name}\))", source)]  # fmt: skip
        text = "\n".join([self.described, behind(source), *images, *rows])
        lists = self.description.get("backend") == "python"
        return shapes.of_lists(text, [a.name for a in self.arguments]) if lists else text

    @cached_property
    def code(self) -> str:
        """Source without comments and documentation."""
        source = re.sub(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', "", self.description["source"], flags=re.DOTALL)
        return re.sub(r"#.*", "", source)

    @cached_property
    def _all_prose(self) -> str:
        """Its documentation and comments, and those of what it is made of."""
        return "\n".join([self.prose, *texts(self.description.get("reached", ""))]).lower()

    @cached_property
    def _module_prose(self) -> str:
        """The same, and what its module says, in one line and in small."""
        return " ".join(f"{self._all_prose} {self.description.get('told', '')}".lower().split())

    @property
    def _adds_to_scores(self) -> bool:
        """Whether something that is no mask is said to be added to products of queries and keys before the softmax."""
        inside = r"(?:[^()+]|\([^()]*\)|\)(?= ?[/*·×]))"
        product = r"\W{0,3}q\w*?\W{0,5}k"
        more, adds = r" ?\+ ?(?!m(ask)?\b)[^\W\d]", r"\badded to ((the|all|raw|attention) ){0,3}(scores|logits)\b"
        return any(re.search(says, self._module_prose) for says in (
            rf"\bsoftmax\w* ?\({product}{inside}{{0,60}}{more}",
            rf"\b([a-z]\w*) ?={product}[^+=]{{0,60}}{more}.{{0,300}}?\bsoftmax\w*\W{{1,3}}\1\b",
            rf"\b(bias(es)?|embeddings?|terms?)\b[^.;]{{0,60}}({adds}|\badded before the softmax\b)",
        ))  # fmt: skip
