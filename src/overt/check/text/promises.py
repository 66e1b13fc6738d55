"""What a text promises: documentation, comments and names, read in this one place.

They say what is *intended*, a polarity, a causal mask, an order of packed rows, an embedding times √d, and decide
nothing: whether the promise is held, what was computed tells.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property
from itertools import product
from typing import Any

from overt.check.text.comments import aside, texts
from overt.check.text.counting import counted
from overt.check.text.hiding import ENDS, Hiding
from overt.check.text.meaning import NOT
from overt.check.text.roles import role
from overt.check.text.shapes import layout_of, unpacked
from overt.check.text.syntax import parsed

# Which rows or columns something is said to be.
_RANGE = r"\b[\w*]+ ?(?:\.\.+|:|…) ?(?![qkv]\b)[\w*]+(?: ?- ?1)? "

# What may be chosen, or how.
_CHOSEN = r"(quer(y|ies)|keys?|tokens?|positions?|slots?|memories|blocks?|rows?|ch(oo|o)s(es?|en)|selects?(ed)?|picks?(ed)?|keeps?|kept)"

# What is no weight yet.
_SCORED = r"logits|scores|energies"
# Queries that are the last of the positions that the keys have.
_LAST = (
    r"bottom.?right|\b[lnstmk]\w* ?- ?[lnstmq]\w* ?\+ ?[itjq]\b|\b(q|query|queries)\b[^.;]{0,40}"
    r"\b(is|are|stands?|sits?|belongs? to|ends?)\b[^.;]{0,20}\b(last|newest|latest|most recent|final)\b"
)


# All of something, and what is laid one after the other, in several languages.
_ALL_OF = (
    r"\b(?:all|every|tod[ao]s|alle|tous|toutes|tutt[ei]|wszystkie)(?: (?:of|the|l[ao]s|les|die|le|gli|[aoi]s?))* (\w+)"
)
_ROWS = "rows?|columns?|filas|columnas|zeilen|spalten|lignes|colonnes|righe|linhas|colunas|wiersze|kolumny"
_LAID = rf"\b({_ROWS})\b|pack|concat"

# What lies as the weights of torch's layer do.
_AS_TORCH = (
    rf"(?<!\bnot )\b({_ROWS}|in_proj\w*|pack(ed|s|ing)|laid|layout|order(ed)?)\b[^.;]{{0,40}}\b(as|like|of)"
    r" ((in|for|the|those|that|of) )*(torch\.)?(nn\.)?MultiheadAttention\b"
)

# In the languages that have the word.
_STEPWISE = r"auto[-_ ]?r?r[eé]gr[eé]s(s?i[vfw]|yj)"
# What depends on what comes before it.
_UNTIL = (
    r"(\bdepends? (only )?on (\w+ ){0,2}[01] ?(\.\.+|…|to|-) ?\w\b"
    r"|\bd[eéi]p[eé]nd\w*\b[^.;]{0,80}\[[:., ]*: ?\w ?\+ ?1\])"
)
# What nothing was written to, and that it is not read.
_SLOTS, _WRITTEN = "(slots?|places?|entries|rows|cells)", "(written|filled|occupied|used)"
_BLANK = rf"(not (been |yet )*{_WRITTEN}|never (been )?{_WRITTEN}|un(written|filled|occupied|used)|empty)"
_LEFT_OUT = (
    r"(takes? no part|(is|are) (ignored|hidden|masked|skipped|left out)|(is|are) (not|never) (read|seen|attended)"
    r"|(gets?|has|have) no weight)"
)
_WRITTEN_ALONE = rf"\b({_SLOTS}\b[^.;]{{0,40}}\b{_BLANK}|{_BLANK} {_SLOTS})\b[^.;]{{0,40}}\b{_LEFT_OUT}|\bonly (the )?{_WRITTEN} {_SLOTS}"


class Promises(Hiding):
    """What is said of one callable, by its name, its text and that of what it uses."""

    @cached_property
    def intents(self) -> dict[str, Any]:
        """What recordings are judged by."""
        told = (self.name + self.prose).lower()
        around = (self.name + "\n" + self.described + "\n" + self.description.get("around", "")).lower()
        # The second of three axes, wherever a shape is documented.
        lengths = set(re.findall(r"[(\[]\s*\w+\s*,\s*(\w+)\s*,\s*\w+\s*[)\]]", self.described))
        root = r"(sqrt *\(? *\{?|√ ?|square root of (the )?)\(?(d_?model|d\b|dim|model|embed|width|hidden)"
        return {
            "causal": True if self.declared_causal or self._made_causal else None,
            "last queries": bool(re.search(_LAST, " ".join((around + self.description.get("told", "").lower()).split()))),
            "hides keys alone": not self.has("mask") and (self.has("padding") or self.has("lengths")),
            # By its name, or the formula that is given: tanh(W [c; h]), in either order.
            "luong": "luong" in told or bool(re.search(
                r"\btanh\W{0,2}w\w*\W{0,4}(c\w*\W{0,4}[;,]\W{0,3}[hs]|[hs]\w*\W{0,4}[;,]\W{0,3}c)", self._module_prose
            )),
            # What those that are chosen are said to have most of, where nothing is said to be the least.
            "largest": [] if re.search(r"(?<!\bat )\b(smallest|lowest|least|fewest|nearest|closest|minim\w+)\b", self._module_prose)
            else [found[-1] for found in re.findall(
                rf"\b{_CHOSEN}\b[^.;]{{0,60}}\b(largest|highest|greatest) (\w+)", self._module_prose
            )],
            "slots unwritten": bool(re.search(_WRITTEN_ALONE, self._module_prose)),
            "sees ancestors": bool(re.search(
                r"\bancestors\b|\b(way|path|paths|from)\b[^.;]{0,20}\broot\b|\broot[- ]to\b", self._module_prose
            )) and "descendant" not in self._module_prose,
            "adds to scores": self._adds_to_scores,
            "asks": self._asks,
            "offsets": self._offsets,
            "subtracted": self._subtracted,
            # Of a table with a row for each offset of two positions, that of 0 is not the first: row m, or r for r - m.
            "middle row": bool(re.search(
                r"\b(row|index|entry|slot) (?!0)\w+ (is|means|holds|stands for|=|for)\W{1,2}(the )?(same position|(offset|distance) (0|zero))"
                r"|\b(row|index|entry|slot) (?P<row>\w+)\b[^.;]{0,60}\b(offset|distance)\W{1,3}(?P=row) ?- ?\w", self._module_prose
            )),
            "scales": [n for config in self.description.get("configs", ()) for n in config["scales"]],
            "unscaled": self.declared_unscaled,
            "grouped": self.declared_grouped,
            "returns scores": self.returns_scores,
            "returns weights": not self.returns_scores and bool(re.search(
                r"\b(prob|distribution|weight)[^.]{0,80}\bsums? to (1|one)\b", " ".join(told.split())
            )),
            "no softmax": self.declared_free,
            "scaled": self.description.get("scaled"),
            "by width": self.declared_by_width,
            # The formula of one head: softmax(q_h k_h) v_h.
            "own weights": bool(re.search(r"\bq_\{?(\w)\b.{0,12}\bk_\{?\1(\b|\^).{0,60}\bv_\{?\1\b", self._module_prose)),
            "by root": bool(re.search(r"/ ?\(?(sqrt|√|root of)|divided by (the )?(sqrt|√|(square )?root)", self._module_prose)),
            # Keys and values are said to have one source.
            "memory": bool(re.search(r"keys? and values?\b[^.;]*\bfrom\b|(?<!a)cross", told)),
            # Sukhbaatar et al. 2015 (arXiv:1503.08895) and Miller et al. 2016 (arXiv:1606.03126).
            "reads memories": bool(re.search(r"memory networks?\b|\bmemn2n\b|\bkey-value memor|\bbags? of words\b", around)),
            # Of keys and values, or of all.
            "shares": bool(re.search(r"\b(shar(ed?|es|ing)|tied?|same (matrix|projection|weights?|linear))\b|\bk ?= ?v\b", around)),
            # A score has a query and a key, by the formula that is given: e_ij = …
            "pairs": (len(lengths) > 1 and "1" not in lengths) or bool(re.search(
                r"\b[a-z]_\{?[a-z],? ?[a-z]\}?\s*=", self.described + self.description.get("told", "")
            )),
            "powers of two": self.powers_of_two,
            "alibi": bool(re.search(
                r"alibi|press et al|linear bias", around + self.description.get("told", "").lower()
            )),
            # Of what is turned, queries and keys are named, and values not.
            "rotates q and k": any(
                re.search(r"\bquer|\bq\b", line) and re.search(r"\bkeys?\b|\bk\b", line) and not re.search(r"value|\bv\b", line)
                for line in re.split(r"\n|(?<=[.;])\s", around) if re.search(r"rotary|rope\b|rotat", line)
            ) or bool(re.search(
                r"\bvalues? ((stay|remain|are (left|kept)) as they (are|were)|(is|are) not (rotat|turned))",
                " ".join((around + self.description.get("told", "").lower()).split()),
            )),
            "embeddings times √d": any(
                re.search(root, line) and re.search(r"multipl|times|scaled|\*|·", line) and not re.search(r"divi|/|score|dot", line)
                for line in around.splitlines() if "embed" in line
            ),
        }  # fmt: skip

    @cached_property
    def _places(self) -> tuple[set[str], set[str]]:
        """The letters that places of queries, and of keys, are said to have, as in q_i and k_j."""
        told = self._all_told
        place = r"(?:_\{?|\[|,? (?:(?:at|on|in|of) )?(?:(?:time|position|place|token|row|index|step)s? )?)([a-z])\b"
        asking, asked = (set(re.findall(rf"\b{one}{place}", told)) for one in (r"q(?:uery)?", r"k(?:ey)?"))
        # Word i reads word j, which is read by it.
        does = r" (?:reads?|sees?|looks? at|attends? to|pays? attention to)"
        done = r"(?:,? (?:which|that))? is (?:read|seen|looked at|attended to) by"
        for says, ways in ((does, (asking, asked)), (done, (asked, asking))):
            for pair in re.findall(rf"\b([b-z]){says} (?:[^\W\d]{{2,}} ){{0,2}}([b-z])\b", " ".join(told.split())):
                for letters, letter in zip(ways, pair, strict=True):
                    letters.add(letter)
        return asking - asked, asked - asking

    @property
    def _all_told(self) -> str:
        return (self.described + "\n" + self.description.get("told", "")).lower()

    @cached_property
    def _offsets(self) -> int:
        """How a table is said to be indexed, as in b[i - j] beside q_i and k_j.

        1 by how far back a key is, -1 by how far ahead, 0 where it is not said.
        """
        asking, asked = self._places
        found = set()
        for before, one, two in re.findall(r"\w\[([^\[\]\n]*?)\b([a-z]) ?[-−–] ?([a-z])\b", self._all_told):
            back, ahead = one in asking and two in asked, one in asked and two in asking
            found.add((back - ahead) * (-1 if re.search(r"[-−–] ?\(? ?$", before) else 1))
        found.discard(0)
        return found.pop() if len(found) == 1 else 0

    @cached_property
    def _subtracted(self) -> bool:
        """Whether an argument times how far back a key is is said to be subtracted, as in q_i · k_j - slope * (i - j)."""
        asking, asked = self._places
        names = "|".join(re.escape(a.name.lower()) for a in self.arguments) or "(?!)"
        times = rf"[\w)\]}}] *(?:[-−–]|\bminus\b) *(?:{names})(?:\[\w\]|_\w)? *[*·×]"
        pairs = re.findall(rf"{times} *(\(|\||abs\() *([a-z]) ?[-−–] ?([a-z])\b", self._all_told)
        return any(
            (one in asking and two in asked) or (how != "(" and one in asked and two in asking)
            for how, one, two in pairs
        )

    @cached_property
    def _asks(self) -> tuple[int, int] | None:
        """The places of the arguments that are named queries and keys, where there are both."""
        roles = [a.role for a in self.arguments]
        return (roles.index("q"), roles.index("k")) if {"q", "k"} <= set(roles) else None

    @cached_property
    def told_layouts(self) -> list[str]:
        """Layouts that documentation and comments name, which is what was meant."""
        return self.layouts_in(self.described)

    def layouts_in(self, text: str) -> list[str]:
        found: list[str] = []
        patterns = [
            r"[\(\[]\s*((?:[\w*]+\s*,\s*){1,4}[\w*]+)\s*[\)\]]",
            # No name of an axis is longer; a word of nothing but x has very many ways to be three axes.
            r"\b((?:\w{1,32}\s*[x×]\s*){1,3}\w{1,32})\b",
            r"Float\w*\[\w*,\s*[\"']([\w ]+)[\"']",
        ]
        for words in [*unpacked(text), *(words for pattern in patterns for words in re.findall(pattern, text))]:
            layout = layout_of(words)
            if layout and layout not in found:
                found.append(layout)
        return found

    def told_window(self, name: str) -> bool:
        """Whether an argument is said to be how many positions a query sees, or how far away."""
        own, some = rf"[`'\"]*\b{re.escape(name.lower())}\b[`'\"]*", "(tokens|positions|keys|steps|words|frames|places)"
        before = rf"\b(last|past|previous|latest|nearest) {own} {some}|{own} ({some} )?(before|behind|back|ahead)\b"
        many = rf"{own}\W{{1,9}}(how many|(the )?number of)((?! top| best| largest| highest| random|[.;:]).){{1,40}}"
        sees = rf"{many}\b(looks?( (back|ahead))?( at)?|sees?|attends?|reads?|(may|can) (see|read|attend))\b"
        return re.search(f"{before}|{sees}", self.prose) is not None

    def told_text(self, name: str) -> bool:
        """Whether an argument is said to be a text where a line begins with it: name: str."""
        return re.search(rf"(?m)^\s*[`*]*{re.escape(name.lower())}[`*]*(\s*:\s*| +)str(ing)?\b", self.prose) is not None

    def told_position(self, name: str) -> bool:
        """Whether an argument is said to be one position: a query of position ``name``, or name: position of the newest."""
        own, one = rf"[`'\"]*\b{re.escape(name.lower())}\b", "(position|time|time ?step|step|slot|index)"
        behind = rf"{own}[`'\"]*\W{{1,9}}((int|integer|the|absolute|global|current)\b\W{{1,3}})*{one} of (?!(each|every|all)\b)"
        return (
            re.search(rf"\b(of|at|to|from|until|than|before|after) {one} {own}(?!\w| ?\()|{behind}", self.prose)
            is not None
        )

    @cached_property
    def misread(self) -> dict[str, str]:
        """Globals that a function reads in the place of arguments: of the same role, or of like name and never read."""
        function = next(iter(parsed(self.description["source"]).body), None)
        nodes = [node for part in getattr(function, "body", []) for node in ast.walk(part)]
        read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        found = {}
        for name, a in product(self.description["globals"], self.arguments):
            alike = a.name not in read and (name.startswith(a.name[:3]) or a.name.startswith(name))
            if alike or (a.role == role(name) and a.role in ("q", "k", "v", "x", "context")):
                found[name] = a.name
        return found

    @cached_property
    def declared_causal(self) -> bool:
        """Whether the name or the text promise a causal mask, and no argument asks for it."""
        if self.has("causal") or any("causal" in row["name"].lower() for row in self.description["constructor"]):
            return False
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()
        # What is kept from a configuration may ask for it as well.
        asks = re.search(r"\bif (not )?self\.(is_)?causal\b", self.code)
        if asks or re.search(r"(non?|not|un)_?(causal|masked)|bidirectional", name):
            return False
        told = re.sub(
            rf"(non?|not|never|without|isn't|un|nicht|niet|pas|não|nie)[ -]?(a |any )?(causal|masked|{_STEPWISE})",
            "",
            self.prose,
        )
        # One of several words in a row is no promise, nor is what an option must be.
        told = re.sub(r"must be (true|set|false)[^.\n]*causal", "", told)
        told = re.sub(r"(?m)(?<=\w), *causal *(?=, *\w+ *(,|$))", "", told)
        told = re.sub(r"\bcausal(ly)?,? (if|when|where) (asked|wanted|told|requested|set|needed|required)\b", "", told)
        if self.has("mask"):
            # What is said of the argument promises nothing of the function.
            mask = re.escape(self.by_role["mask"].name.lower())
            told = re.sub(rf"(?m)^.*\b{mask}\b.*(\n[ \t]+.*)?$", "", told)
        # Nor is what is said of what may be left out, be it causal attention itself: "first: … causal; None sees all".
        for name in (re.escape(a.name.lower()) for a in self.arguments if a.default is None and not a.required):
            label = rf"(?<![\w`'\"]){name}\b[`'\"]{{0,2}}\s*(\([^()]*\)|\[[^\[\]]*\])?\s*(:|--|—|–|=)"
            told = re.sub(rf"{label}(?s:.*?)(?=[.;](?!\n[ \t])\s|\n\s*\n|\n\s*\w+ *:|\Z)", "", told)
            told = re.sub(rf"[^.;]*\b(if|when|where|with|unless) (a |an |the )?{name}\b[^.;]*", "", told)
        # Nor is what is said where such a thing is given.
        left = {f"self.{row['name']}" for row in self.description["constructor"]
                if not row["required"] and row["default"] in (None, False)}  # fmt: skip
        left |= {a.name for a in self.arguments if not a.required and a.default in (None, False)}
        for comment in aside(self.description["source"], left):
            told = told.replace(comment.lower(), "")
        alone = not any(self.has(given) for given in ("mask", "padding", "lengths"))
        # What is said of every token of a model holds in what is made of it too, unless a mask for each query is given.
        masks = [a.name for a in self.arguments if a.role == "mask"]
        keys = r"\W{0,3}\[?\(?\w+, *(1, *)*\w+[\])]"
        free = all(re.search(rf"\b{mask}\b{keys}", self.described) for mask in masks)
        module = " ".join(self.description.get("told", "").lower().split())
        # Where another sequence is read too, what is said of every position need not be said of that.
        one = masks and re.search(_STEPWISE, module) and not re.search(r"\bencoder|\bcross|\bsource\b|seq2seq", module)
        own = "|".join(re.escape(a.name.lower()) for a in self.arguments)
        before = (
            r"\b(a|each|every) (token|position) (sees|attends to|looks at) (only )?itself and (only )?(the )?\w+ before it\b"
            r"|\b[^\W\d]{3,} (?P<own>[a-z]) (may |can )?(only )?(uses?|sees?|reads?|attends?( only)? to|looks?( only)? at) (only )?"
            r"(the )?(\w+ )?[01] ?(\.\.+|…|to|-|–|through) ?(?P=own)\b"
        )
        # A sentence of a condition, or of what may be left out, is no promise.
        chosen = [row["name"] for row in self.description["constructor"] if not row["required"]]
        chosen += [a.name for a in self.arguments if not a.required]
        given = "|".join([r"[\"'=]", r"\b(if|when|where|with|unless|whether|under|for|otherwise)\b",
                          *(rf"\b{re.escape(one.lower())}\b" for one in chosen)])  # fmt: skip
        lines = [" ".join(line.split()) for line in re.split(r"(?<!\.)[.;](?=\s)|\n\s*\n", told)]
        always = [line for line in lines if not re.search(given, line)]
        return bool(
            re.search(rf"causal|{_STEPWISE}", name)
            # A part of such a model may be given what is hidden from whom.
            or ("gpt" in name and (alone or not re.search(r"att|layer|block", name)))
            or (free and (one or "decoder-only" in module) and re.search(before, module))
            or (free and any(re.search(before, line) for line in always))
            or re.search(rf"{_UNTIL} (of|in) [`'\"]*({own})\b", module)
            or (alone and re.search(r"masked_self|masked_multi|masked_att|decoder_self|lookahead", name))
            or re.search(
                # What is learned step by step may yet see both sides (Yang et al. 2019, XLNet).
                ("" if re.search(r"\bbi-?directional|\bboth (directions|sides)\b", told) else rf"{_STEPWISE}|")
                + rf"\bcausal(ly)?\b|{_UNTIL}"
                r"|look-?ahead|future (tokens|positions|keys)|masked self|(only|itself) .{0,20}\b(past|earlier|previous)"
                r"|\bpredicted (only )?from .{0,30}\b(what|all that) (came|comes|went) before\b",
                told,
            )
        )

    @cached_property
    def _made_causal(self) -> bool:
        """Whether what it is made of is called causal attention, and nobody says by an argument what is hidden."""
        asked = any(self.has(given) for given in ("causal", "mask", "padding"))
        told = any("causal" in row["name"].lower() for row in self.description["constructor"])
        named = r"\b(def causal_(self_)?att|class Causal(Self)?(Att|Block|Layer|Decoder|Transformer))"
        return not asked and not told and bool(re.search(named, self.description["reached"]))

    @cached_property
    def powers_of_two(self) -> bool:
        """Whether the number of heads is said to be one."""
        return bool(re.search(r"power of (two|2)\b", self.prose))

    @cached_property
    def _packed_prose(self) -> str:
        """All that is said where it may be said how a packed projection lies."""
        # What the module says of weights that are read here by their name.
        module = " ".join(self.description.get("told", "").split())
        held = re.findall(r"(?i)\b\w*(?:qkv|query_?key_?value)\w*", module)
        code = self.code + self.description.get("reached", "")
        if any(name in code for name in held):
            return self._all_prose + "\n" + module.lower()
        # And the sentences on what makes three of one, whatever it is called, with those on its rows behind them.
        threefold = "|".join(re.findall(r"\bself\.(\w+) *= *[\w.]+\([^\n]*(?:\b3 ?\*|\* ?3\b)", self.code)) or "(?!)"
        of_it = rf"(?:(?<=[.;:] )|^)[^.;]*\b(?:{threefold})\b[^.;]*(?:[.;] [^.;]*\b(?:rows?|columns?|channels?|order)\b[^.;]*)?"
        return "\n".join([self._all_prose, *(said.lower() for said in re.findall(of_it, module))])

    @property
    def thirds(self) -> bool:
        """Whether all queries are said to come before all keys: q, k and v in a row may be those of each head."""
        all_of = r"\b(all|every) (of )?(the )?q|\bq(uer(y|ies))?s? (for|of) (all|every) heads?|\bthirds?\b"
        shape = r"\b3\W{1,4}(self\.)?(n_?|num_)?h(eads?)?\b"
        told = self._as_torch or self._laid_in_turn is not None
        return told or bool(re.search(rf"{all_of}|{shape}|{_RANGE}(the )?q(uer|\b)", self._packed_prose))

    @cached_property
    def _laid_in_turn(self) -> str | None:
        """The order of rows or columns of which those of all queries are said to be one part, as those of all keys."""
        text = " ".join(f"{self._all_prose}. {self.description.get('told', '')}".lower().split())
        for sentence in re.split(r"[.;] ", re.sub(r"\([^()]*\)", "", text)):
            parts = re.findall(rf"{_ALL_OF}(?: [qkv]\b)? *(?:[,.]|$|and |y |und |et |e |i )", sentence)
            order = "".join(role(word, ("q", "k", "v")) or "" for word in parts)
            if sorted(order) == ["k", "q", "v"] and re.search(_LAID, sentence):
                return order
        return None

    @cached_property
    def told_thirds(self) -> bool:
        """Whether what a matrix makes of 3 · N rows is told by N rows each, in whatever order and language."""
        text = " ".join(f"{self._all_prose}. {self.description.get('told', '')}".lower().split())
        rows = rf"(?:{_ROWS})\b"
        for whole in re.finditer(rf"\b3 ?[*·×x]? ?([a-z]\w*) {rows}", text):
            n = re.escape(whole[1])
            made = re.search(rf"(?i)\w\((?:self\.)?\w+, *(3 ?\* ?(?:self\.)?{n}|(?:self\.)?{n} ?\* ?3)\b", self.code)
            if made and len(re.findall(rf"[a-zà-ÿ]+ {n} {rows}", text[whole.end() :])) > 1:
                return True
        # Or of which that many are said to be those of the queries.
        shapes = re.findall(r"\( ?(?:(?!n?_?h(?:eads?)?\b)\w+ ?, ?)?3 ?[*·×] ?([a-z]\w*) ?(?:,|\))", text)
        return any(re.search(rf"\b{re.escape(n)} {rows} (of|for) (the )?q(uer(y|ies))?\b", text) for n in shapes)

    @cached_property
    def _as_torch(self) -> bool:
        """Whether it takes the weights of torch's layer, which pack all queries, all keys and all values."""
        told = self.description.get("told", "") + self.description["doc"] + self.description["source"]
        taken = "MultiheadAttention" in told and re.search(r"in_proj_(weight|bias)", self.code)
        return bool(taken or re.search(_AS_TORCH, " ".join(told.split())))

    @cached_property
    def told_packing(self) -> str | None:
        """How a packed projection is said to lie: "heads first" for a q, k and v of each head, or the order of letters."""
        if self._as_torch:
            return "qkv"
        if self._laid_in_turn:
            return self._laid_in_turn
        one = r"(?:the )?(q|k|v)(?:uer(?:y|ies)|eys?|alues?)?s?\b(?: (?:for|of) (?:all|every) heads?)?(?: first)?"
        between = r"[^\w\n]{1,4}(?:then |and )?(?:of |all (?:of )?)?"
        prose = re.sub(rf"{_RANGE}(?=(?:the )?[qkv])", "", self._packed_prose)
        if re.search(
            r"\b(n_?|num_)?h(eads?)?\W{1,4}3\W{1,4}(c\b|d\b|h?d\b|ch|head|d_)|(per|each|every|by|for) (attention )?head( \d)?\b((?!softmax|scores?\b).){0,45}\bq(uery)?(_\w)?\b(?! ?[.·@*] ?k).{0,30}\bk(ey)?(_\w)?\b|\bq(uery)?\b.{0,60}of head 0"
            # All of one head, before anything is said of the next one.
            r"|\bhead [01]\b((?!\bhead \w).){0,60}\bq(uer(y|ies))?\b((?!\bhead \w).){0,40}\bk(eys?)?\b",
            " ".join(prose.split()),
        ):
            return "heads first"
        named = re.search(r"\b(kqv|kvq|vkq|vqk|qvk)(_proj)?\b", self.code)
        if named:
            return named.group(1)
        if joined := _joined(self.code):
            return joined
        near = r"order|column|row|pack|fused|stack|concat|\|| then all\b|weight"
        # What stands in brackets behind one is a remark.
        prose = re.sub(r"(?<=\b[qkv]) *\([^()\n]*\)", "", prose)
        for words in re.finditer(rf"(?=(\b{one}{between}{one}{between}{one}))", prose):
            # It is said of how they lie, in the same line or the one before.
            line = "\n".join(prose[: words.end(1)].splitlines()[-2:]) + prose[words.end(1) :].partition("\n")[0]
            if len({*words.groups()[1:]}) == 3 and re.search(near, line):
                return "".join(words.groups()[1:])
        return None

    @cached_property
    def promised_packing(self) -> str | None:
        """The order in which a packed projection should lie, by its documentation or else its name."""
        # BLOOM, GPT-NeoX and Megatron pack their query_key_value head by head.
        fused = re.search(r"query_?key_?value", self.code)
        named = re.search(r"\b(w_?)?qkv", self.code, re.IGNORECASE) and not fused
        return self.told_packing or ("qkv" if named else None)

    @cached_property
    def batches_first(self) -> bool | None:
        """Whether the first axis is said to be that of the samples; None where nothing, or both, is said."""
        # What one number is given back for.
        each = re.findall(r"\b(?:out(?:puts?)?|returns?|gives)\W{1,5}\(([a-z]\w+),\)", self.prose)
        words = ["b", "bs", "bsz", "n_?batch", "batch(_?size)?", "batches", "samples", *each]
        samples, more = f"({'|'.join(words)})", r"\s*,\s*[\w*]+"
        two = r"[(\[]\s*{}\s*,\s*{}"
        shapes, wide = two + rf"(?={more}|\s*[)\]])", two + rf"(?={more})"
        text = (self.described + self.description.get("source", "")).lower()
        text = re.sub(r"\b(\w+)\s+[x×]\s+(\w+)\s+[x×]\s+(\w+)", r"(\1, \2, \3", text)
        first = re.search(shapes.format(samples, r"[\w*]+"), self.prose)
        second = re.search(shapes.format(r"[a-z]\w*", samples), text)
        late = second or re.search(r"(sequence|time|seq|length)[- ](first|major)|batch_first\s*=\s*false", text)
        # A mask, or tokens, may have samples first where what has a width does not.
        if re.search(wide.format(r"[a-z]\w*", samples), text) and not re.search(
            wide.format(samples, r"[\w*]+"), self.prose
        ):
            return False
        return None if first and second else True if first and not late else False if late else None

    def counts_itself(self, name: str = "") -> tuple[bool, bool]:
        """Whether a window is said to count the query, and whether it is said not to."""
        # What the module, or what is called, says of a number by its name is said of that, and so are the comments above
        # a field and behind it.
        lines = re.split(ENDS, self.description.get("told", "").lower())
        classes = (m["source"].lower() for m in self.description.get("makers", ()) if m["class"])
        above = (re.sub(r"(?m)^[ \t]*(#.*)\n[ \t]*(?=\w+ *[:=])", r"\1 ", source) for source in classes)
        lines += [line for source in above for line in source.splitlines() if "#" in line]
        lines += re.split(ENDS, "\n\n".join([self._configured, *texts(self.description["helpers"])]).lower())
        # A letter may stand for it.
        letters = re.findall(
            rf"\b{name.lower()}\b`* ?(?:= ?`?([a-z])\b|\(`?([a-z])`?\))", "\n".join([self.prose, *lines])
        )
        names = "|".join([name.lower(), *filter(None, (one for pair in letters for one in pair))])
        lines = [line for line in lines if name and re.search(rf"\b(\w+_)?({names})\b", line)]
        told, one = "\n".join([self.prose, *lines]), rf"\b(?:{names})\b"
        if name and re.search(rf"{one}`? ?[-−–] ?1\b|[-−–] ?{one} ?\+ ?1\b", told):
            # One less than it are the others, or so far back is the first, in any language.
            return True, False
        if name and (far := re.search(rf"\w ?[-−–] ?\w+ ?[)|]? ?(<=|≤|<) ?`?{one}|\b2 ?[*·×]? ?{one} ?\+ ?1\b", told)):
            # How far away the last one is, or the first that is none.
            return far[1] == "<", far[1] != "<"
        # Where the sentences that name it say nothing, the others may.
        named = [line for line in re.split(ENDS, self.prose) if name and re.search(one, line)]
        every = (counted(" ".join(text.split())) for text in ("\n".join([*named, *lines]), told))
        return next((said for said in every if any(said)), (False, False))

    @cached_property
    def one_length(self) -> bool:
        """Whether it is said that a sequence attends to itself, so that there are as many keys as queries."""
        told = re.sub(r"\bself\b[.,)]", "", self.name + self.prose)
        return self.declared_causal or self.has("window") or bool(re.search(r"self", told, re.IGNORECASE))

    @cached_property
    def declared_grouped(self) -> bool:
        """Whether it is said that consecutive query heads share a key head."""
        told = self._all_prose + self.description.get("told", "").lower()
        return bool(
            re.search(
                r"consecutive|//\s*\(?\s*(`?\w+`?\s*/|n_?rep|r\b|group)|repeat_interleave|(as in|como en|comme dans|wie (in|bei)) llama|query heads .*\bneighbou?rs|neighbou?ring (query )?heads share|first (?P<many>\w+ ?/+ ?\w+|\w+ (query )?heads)\b[^.;]{1,60}\bnext (?P=many)\b|heads 0\W{1,5}(?:[1-9]|\w+`? ?(?:/+ ?\w+`? ?)?- ?1)|\b(?P<key>\w+) ?\* ?(?P<group>\w+)\W{1,6}(?P=key) ?\* ?(?P=group) ?\+",
                "\n".join([told, *(line for line in self._configured.splitlines() if "head" in line)]),
            )
        )

    @cached_property
    def _configured(self) -> str:
        """What classes of its module that may hold its configuration say of themselves, in small."""
        classes = (m["source"] for m in self.description.get("makers", ()) if m["class"])
        return "\n".join(text for source in classes for text in texts(source)).lower()

    @cached_property
    def declared_by_width(self) -> bool:
        """Whether scores are said to be divided by the width itself, as in µP (Yang et al. 2022, arXiv:2203.03466)."""
        width = r"(d|d_?(k|head|h)|head_?dim)\b(?! ?(\*\*|\^))"
        divided = rf"\bdivided by (the )?(head )?(width|dimension|{width})"
        return bool(re.search(rf"\b1(\.0)? ?/ ?{width}|{divided}|\b(mu|µ|μ)p\b", self._module_prose))

    @cached_property
    def declared_unscaled(self) -> bool:
        """Whether the scale is said to be somebody else's business, or there is none, as in Luong's product."""
        text = self.name.lower() + " " + self.prose
        # What the whole file is about says it in so many words.
        root = r"(1 ?/ ?)?(sqrt|√|square root|scale\b|scaling|temperature)"
        as_is = r"\binto the softmax (just |exactly )?as (it is|they are|is)\b"
        plain = r"\bsoftmax(_\w+)? ?\( ?\w+(\^t)? ?[.·@] ?\w+(\.t|\^t)? ?\)"
        products = rf"\b({_SCORED}|products?)\b[^.]{{0,60}}"
        bare = rf"{products}\b(plain|bare|raw) ((dot|inner) )?products?\b(?![^.;]*{root})"
        never = rf"{products}\b((do(es)?|did|is|are|were) not|never) (scale|divide)[ds]?\b(?![^.;]*\bbut\b)"
        beyond = rf"{bare}|{never}|\b(do(es)?|did|is|are) not (scaled?|divided?)\b.{{0,30}}\b({_SCORED}|by (the )?{root})|\b(there is )?no {root}|\b({NOT})\b[ \w]{{0,20}} {root}|{as_is}|{plain}"
        return bool(
            re.search(
                r"pre-?scaled|already scaled|unscaled|(\b(is|are)|:) (an? |the )?scaled q(uery|ueries)?\b|luong|(?<!scaled )\bdot attention|scaled? (is )?(outside|by the caller|beforehand)|without (the )?scal|no scal|not scaled|(do|does|did|is|are) not scale|plain (inner|dot) products?|t5",
                text,
            )
            or re.search(beyond, self._module_prose)
        )

    @cached_property
    def declared_free(self) -> bool:
        """Whether it is said that the weights need not sum to 1."""
        told = self._module_prose
        without = r"\b(no|without( an?| the| any)?|not( \w+){0,3} (through|by|with|using) an?|instead of( an?| the)?|in place of( an?| the)?) softmax\b"
        raw = r"\b(un-?normali[sz]ed (attention )?(weights?|activations?)|(weights?|activations?)( \w+){0,2} (are|is) \W?not\W+normali[sz]ed)\b"
        return bool(re.search(rf"{without}|\bsoftmax(-| )free\b|{raw}", told))

    @cached_property
    def returns_scores(self) -> bool:
        """Whether what is returned is said to be scores, and no weights."""
        told = " ".join(self._all_prose.split())
        said = r"\b(second|results?|returns?|returned|gives?|outputs?)\b[^.;]{0,40}\b"
        return bool(re.search(rf"{said}({_SCORED}|unnormali[sz]ed)|{said}before the softmax", told))


def _joined(code: str) -> str | None:
    """The order in which code lays the projections of queries, keys and values side by side, by their names."""
    one = r"([\w.\[\]\"']+)"
    for several in re.findall(
        rf"\b(?:\w*cat|\w*concat\w*|[hv]?stack)\(\s*[\[(]\s*{one},\s*{one},\s*{one},?\s*[\])]", code
    ):
        roles = ([role(word) or "" for word in re.findall(r"\w+", name)] for name in several)
        letters = "".join(next((found[1] for found in told if found in ("Wq", "Wk", "Wv")), "") for told in roles)
        if len(letters) == len({*letters}) == 3:
            return letters
    return None
