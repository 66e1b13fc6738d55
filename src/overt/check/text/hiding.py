"""What a text says of masks: what their booleans and numbers mean, and whether an argument is one."""

from __future__ import annotations

import re
from functools import cached_property

from overt.check.text.handed import told_of
from overt.check.text.lines import makers_in
from overt.check.text.meaning import meaning
from overt.check.text.roles import role
from overt.check.text.saying import Said

# Numbers so low that they hide.
_LOW = r"-\s*(1e\d|(jnp\.|np\.|torch\.|math\.)?inf)|−∞|finfo\([^)]*\)\.min|[\"']-inf"
# A sentence may have several lines, of which none begins with another name.
ENDS = r"(?<=[.;])\s+(?!(?:they|these|those|such)\b)|\n\s*\n|\n(?=\s*(?:[-*`]|\w+ *[:=(\[]|\w+ {2}))"


_IDLE = r"(?<!if )(un-?used|not used|never used|no effect|not (?:yet )?(?:supported|implemented))\b"


class Hiding(Said):
    """What is said of the masks of one callable."""

    def idle(self, name: str) -> bool:
        """Whether it is said of an argument that nothing uses it, in a sentence or an entry about it."""
        names = "|".join(re.escape(one.name.lower()) for one in self.arguments)
        every = re.split(rf"(?<=[.;])\s+|\n\s*\n|\n(?=\s*[*`]*(?:{names})\b)", self.prose)
        return any(re.search(rf"(?<!\w){re.escape(name.lower())}\b[^.]*\b{_IDLE}", part) for part in every)

    def declared_mask(self, wanted: str | None = None) -> str | None:
        """keep, drop or additive, where name, text, or what its file gives it, say it of a mask, or of a padding mask."""
        if "--mask" in self.overrides:
            return self.overrides["--mask"]
        found = [self.by_role[r] for r in ("mask", "padding") if r in self.by_role and wanted in (None, r)]
        if not found:
            return None
        name = found[0].name.lower()
        others = [a.name.lower() for a in self.arguments if a.role in ("mask", "padding") and a.name.lower() != name]
        every = re.split(ENDS, self.prose)
        # A short name stands in many words.
        named = re.escape(name) if len(name) > 2 else rf"(?<!\w){re.escape(name)}\b"
        about = [n for n, line in enumerate(every) if "mask" in line or re.search(named, line)]
        # What a number says is said of the mask where that was named just before.
        lines = [line for n, line in enumerate(every) if n in about or (
            re.search(r"\b(true|1|0)\b", line) and {n - 1, n - 2, n - 3} & {*about})]  # fmt: skip
        # Each mask is told of by itself.
        mine = [line for line in lines if re.search(rf"(?<!\w){re.escape(name)}\b", line)]
        if others:
            described = any(self._paragraph(other) for other in others)
            lines = mine or [li for li in lines if not described and not any(other in li for other in others)]
        if (
            re.search(r"bool", self.prose)
            and re.search(r"\bfloat", self.prose)
            and re.search(r"\badded\s+to", self.prose)
        ):
            # Both are taken, each by its dtype.
            return None
        own = self._paragraph(name)
        for part, text in ((re.split(ENDS, own), own), (lines, self.prose)):
            # What is said of booleans elsewhere is said of what it is made into.
            said = {verdict for line in part if (verdict := meaning(line, "bool" in text))}
            if said:
                # Who says both leaves it open.
                return said.pop() if len(said) == 1 else None
            makers = makers_in(self.description.get("file"), own) if part == [own] and "bool" not in own else ()
            if any(re.search(_LOW, source) for source in makers):
                return "additive"
        # And so is what is said where it is handed on.
        method = self.description["method"] or self.name
        source = f"{self.description['source']}\n{self.description.get('reached', '')}"
        texts = [text.lower() for text in told_of(source, method, found[0].name)]
        said = {verdict for text in texts for line in re.split(ENDS, text)
                if re.search(named, line) and (verdict := meaning(line, "bool" in text))}  # fmt: skip
        if said:
            return said.pop() if len(said) == 1 else None
        if re.search(r"keep|allow|visible|valid|attend", name):
            return "keep"
        if re.search(r"additive|bias|float", name):
            return "additive"
        if re.search(r"drop|block|is_pad|ignore", name):
            return "drop"
        if re.search(r"\badditive mask\b", self.prose) and "bool" not in self.prose:
            return "additive"
        given: dict[str, str] = self.description["masks"]
        if found[0].name in given:
            return given[found[0].name]
        # What the module says of masks is said of the one that there is.
        every = re.split(r"\n\s*\n|(?<=[.;])\s", self.description.get("told", "").lower())
        told = {meaning(" ".join(line[line.index("mask") :].split()), "bool" in line)
                for line in every if "mask" in line} - {None}  # fmt: skip
        # In any language, cells that are -inf are added.
        formal = re.search(r"\[\w, ?\w\]\s*=\s*[-−] ?(inf|∞)", self.description.get("told", "").lower())
        told |= {"additive"} if formal else set()
        return told.pop() if len(told) == 1 and not others else None

    def told_booleans(self, name: str) -> bool:
        """Whether what is said of an argument is of booleans, or of a mask."""
        words = r"\bbool|\b(true|false|masks?|hides?|hidden|padding)\b|\b[01] (=|for|where) [a-z]|== *[01]\b|\b(0 ?/ ?1|1 ?/ ?0)\b"
        words += r"|\b(gets?|takes?|ha(s|ve)|receives?) no weight"
        said = self.prose + "\n" + self.description.get("told", "").lower()
        return bool(re.search(rf"\b{re.escape(name.lower())}\b((?!{self._another(name)})[^\n.])*?({words})", said))

    def _another(self, name: str) -> str:
        """A pattern of where something is said of another argument than this one."""
        others = "|".join(re.escape(a.name.lower()) for a in self.arguments if a.name != name)
        others = others or "(?!)"
        return rf"\b({others})\b *[(:\[]|; *({others})\b"

    def told_mask(self, name: str) -> str | None:
        """The role that what is said of an argument gives it: a mask, or one of keys alone."""
        # What is indented below a name is said of it.
        entry = rf"(?m)^([ \t]*)({re.escape(name.lower())}\b[^\n]*)((?:\n\1[ \t]+\S[^\n]*)+)"
        entries = [f"{found[2]} {' '.join(found[3].split())}" for found in re.finditer(entry, self.prose)]
        for line in [*entries, *re.split(r"\n|(?<=[.;])\s", self.prose)]:
            first = re.match(rf"\W*{re.escape(name.lower())}\b\W*([:=(–—]|\b(is|are) \()", line)
            # Behind others, what is added says so by its numbers, and what is kept or hidden by booleans.
            said = first or re.search(rf"[,)\]] {re.escape(name.lower())}\b\W*[:=(\[–—]", line)
            own = re.split(self._another(name), line[said.end() :])[0] if said else ""
            means = meaning(said.group() + own, "bool" in line) if said else None
            if not first and means != "additive" and not re.search(r"\b(true|false|bool\w*)\b", own):
                continue
            # What is added hides where it says what hides.
            if means in ("keep", "drop") or (means and re.search(r"inf\b|∞|\de\d", line)):
                return "padding" if re.search(r"\b(tokens?|pad\w*)\b", line) else "mask"
        return None

    def told_to_hide(self, name: str) -> bool:
        """Whether very negative numbers in an argument are said to hide, or a function that is called like it gives some."""
        alike = [m for m in self.description.get("makers", ()) if not m["class"] and m["name"].split("_")[-1] == name]
        # What takes a mask, or what is attended to, uses one.
        uses = {"q", "k", "v", "x", "context", "scores", "mask"}
        made = [m["source"] for m in alike if not uses & {role(row["name"]) for row in m["parameters"]}]
        said = re.search(rf"\b{re.escape(name.lower())}\b[^\n;]*(-\s*(1e\d|inf)|−∞)", self.prose)
        return bool(said or (len(name) > 2 and any(re.search(_LOW, source) for source in made)))

    def _paragraph(self, name: str) -> str:
        """What the documentation of an argument says, in one line."""
        found = re.search(
            rf"^([ \t]*){re.escape(name)}\b[^\n:]{{0,30}}:(.*?)(?=\n\1?[ \t]{{0,4}}[\w, ]+(\([^)]*\))?:|\n\s*\n|\Z)",
            self.prose, re.DOTALL | re.MULTILINE,
        )  # fmt: skip
        return " ".join(found.group(2).split()) if found else ""

    @cached_property
    def boolean_mask(self) -> bool:
        """Whether name, annotation or text say that the mask is one of booleans or of 0 and 1."""
        argument = self.by_role.get("mask") or self.by_role.get("padding")
        if argument is None:
            return False
        near = " ".join(
            line for line in self._all_prose.splitlines() if "mask" in line or argument.name.lower() in line
        )
        words = r"\bbool|\btrue\b|\b0\s*/\s*1\b|\b1\s*/\s*0\b|binary|\b1 for\b|\b1 =|\bones? where\b|\b1s\b|\b1 where|\bkeep\b"
        turned = rf"{argument.name}\s*\.\s*(float|double|to|astype|type)\s*\(|float\(\s*{argument.name}"
        return bool("bool" in argument.annotation.lower() or re.search(words, near) or re.search(turned, self.code))
