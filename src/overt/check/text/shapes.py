"""Shapes that a documentation gives: the axes of each argument by the words for them, and what its numbers are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from overt.check.text.roles import role

# An argument, or what lies in it by name or number.
Path = tuple[str, ...]

# Letters of shapes in comments: batch, heads, queries or keys, width.
AXIS_WORDS = {
    "B": r"b|bs|bsz|batch|batch_?size|bsize|nbatch|batches|n_?batch(es)?|samples",
    "H": r"h|g|heads?|(n|num|kv|q|n_?kv|num_?kv)_?heads?|nh|nhead|hq|hkv|h_?kv|h_?q|kvh|kv|n_?h|num_?attention_?heads",
    "T": r"t|s|l|n|m|i|j|seq|seq_?len(gth)?|seqlen|len(gth)?|lq|lk|tq|tk|(q|k|kv|src|tgt|query|key|target|source|n|s)_?(len|length|seq|seq_?len)|n_?(q|k)|(l|t|n|s)_?(q|k|kv|v)|time|time_?steps?|tokens?|steps|positions?|queries|keys|sequence(_?length)?|n_?queries|n_?keys|num_?(queries|keys|tokens)|num_?tokens|t1|t2|q|k|length_?[qk]|words|rows",
    "D": r"d|e|c|f|dim|hd|hs|dh|dk|dv|(d|head|model|embed|emb|embedding|hidden|key|value|h)_?(k|v|q|dim|size|model|head|embed|width|h|embd)|dmodel|depth|channels|features?|width|hidden|embed|d_?in|d_?out|embd|h\*d|h\*e|n_?embd|dim_?head|dims?|units|h_?d|vector|columns",
}  # fmt: skip
_TIMES = r"[ ]*(?:\*\*|//|[*+/^·×−-])[ ]*"
_OF = rf"\w+(?:{_TIMES}\w+)*"
_SIGNS = str.maketrans({"×": "*", "·": "*", "−": "-", "^": "**", "²": "**2"})
# A power, or a product, of what stands in brackets.
_POWER = rf"\({_OF}\)(?:²|{_TIMES}(?:\w+|\({_OF}\)))+"
# A sum is one over several: of levels, or documents.
_AXIS = rf"(?:len\(\w+\)|(?:[Ss]um|Σ)(?:_\w+)?(?: ?of | ?over | ?\(? ?){_OF}\)?|{_POWER}|{_OF})"
_ANY = r"\.\.\.|…"
_SHAPE = re.compile(rf"[(\[]\s*((?:{_AXIS}|{_ANY})(?:\s*,\s*(?:{_AXIS}|{_ANY}))*)(\s*,)?\s*[)\]]")
# What the edges of a graph are counted by.
EDGES = r"E|(n|num|number)?_?(of_)?(edges?|E)"
# What is said of vectors: those of tokens are none.
_VECTORS = r"(?!embed|vector|feature|state|representation|encod|hidden)"
_WIDE = r"hidden|dim|width|model|embd|embed|feat|channel"
# Of so many, behind which something stands, a name is a number.
_SO_MANY = r"\b(last|first|past|previous|latest|recent|next|at most|up to) [`'\"]?$"
# What stands between names that one thing is said of.
_BESIDE = r"[\s,/&+|`'\"*]*(and|or|et|und|y)?[\s`'\"*]*"
# What words beside a shape say of its numbers.
_SORTS = {
    "mask": r"bool|true\b",
    "0 and 1": r"1 (?!\d)[^\d\n,;.]{2,40}\b0 [^\W\d]|0 (?!\d)[^\d\n,;.]{2,40}\b1 [^\W\d]|0\s*/\s*1\b|(with )?(1|(?<!\w )0)(\.0)? (for|where|at|=)|ones (at|for|where)|binary\b|(zeros|0s?) and (ones|1s?)\b|(ones|1s?) and (zeros|0s?)\b",
    "whole": r"(u?int(eger)?(32|64|s)?|long|ids?|tokens|ind(ex|ices|exes))\b",
}


@dataclass(frozen=True)
class Shape:
    """Axes by the words for them, and the sort of numbers: "mask", "0 and 1", "whole", "ends" of edges, "" for any."""

    axes: tuple[str, ...]
    sort: str


def shapes(text: str, names: Sequence[str], asked: Iterable[Path] = (), *, alone: bool = True) -> dict[Path, Shape]:
    """The first shape that a text gives of each argument, and of what lies in it by a name, as in ``w["q"] (d, d)``.

    asked: what lies in arguments by a name, as far as that is known, as in ``w: q, k (d, d)``.
    Where there is one name, the shape of something that has none is its own; not so where ``alone`` is False.
    """
    found: dict[Path, Shape] = {}
    nameless: list[Shape] = []
    indexed: dict[Path, Shape] = {}
    known = _any(names)
    # Two things by their names, and the shape of each.
    # "Each" in any language stands behind a comma, or in a column of its own.
    both = rf"(?:,?:? |[^()\[\].;]{{0,40}}\b(?:each|both)\s+|(?:[,:，、]| {{2,}})(?:[ 、，]?(?!(?:{known})\b)[^\W\d]+){{1,3}} )"
    many = r"(?:[^()\[\].;\n]{0,24}(?:->|→|\bof) *|(?:[^\W\d]+ +){1,2})?"
    each = rf"(?<![\w.])({known})(?: *:| =)? +{many}\((\w+), *(\w+)\){both}([\[(](?:{_AXIS})(?:,\s*(?:{_AXIS}))+[\])])"
    text = re.sub(each, _each, text)
    whole = rf"(?<![\w.])({known})(?::| =|,)? (?:is )?(?:an? )?lists? of (\w+) (int(?:s|eger|egers)?)\b"
    text = re.sub(whole, r"\1 (\2,) \3", text)
    # The two that a list holds, and a shape in the same sentence.
    lists = _any(n for n in names if {(n, "0"), (n, "1")} <= {*asked})
    two = rf"(?<![\w.])({lists})\b[^;.()]{{0,60}}\[\w+, *\w+\][^;.()\[\]]{{1,60}}(\((?:{_AXIS})(?:,\s*(?:{_AXIS})){{2,}}\))"
    text = re.sub(two, r'\1["0"] \2; \1["1"] \2', text)
    text = _in_order(text, known, held := [*asked])
    # As many shapes as names, in their order.
    run, and_ = _SHAPE.pattern, r"(?:\s*,\s*|,?\s+and\s+)"
    several = rf"(?<![\w.])((?:{known})(?:{and_}(?:{known}))+):?((?:\s+|{and_}){run}(?:{and_}{run})+)"
    text = re.sub(several, _one_by_one, text)
    # What a sentence begins with is written large.
    large = {one.capitalize(): one for one in names if len(one) > 2 and one.islower()}
    text = re.sub(rf"\b({_any(large)})(?=:?\s+[\[(])", lambda m: large[m[1]], text)
    text = _bracketed(text, known)
    inside = {path[-1]: path[:-1] for path in reversed(held) if path[-1] not in names}
    # W["q"], and W.q where that is asked for.
    fields = rf"(?:\[[\"'](\w+)[\"']\]|\.({_any(path[-1] for path in held if len(path) == 2)}))?"
    name = re.compile(rf"(?<![\w.])({known}){fields}(?!\w)|[\"'](\w+)[\"']|(?<![\w.])({_any(inside)})(?!\w)")
    places = [*_SHAPE.finditer(text)]
    ends = [0, *(place.end() for place in places)]
    starts = [*(place.start() for place in places), len(text)]
    for number, place in enumerate(places):
        axes = _axes(place[1])
        if len(axes) > 1 and all(axis in names for axis in axes) and (len(axes) > 2 or len(axes[0]) > 1):
            # Arguments, as they are passed.
            continue
        if len(axes) == 2 and min(map(len, axes)) > 1 and [role(axis, ("k", "v")) for axis in axes] == ["k", "v"]:
            # What lies in each of several.
            continue
        if "0" in axes or (
            re.search(r"(\b(in|within|between|from)|∈)\s*$", text[: place.start()]) and all(map(str.isdigit, axes))
        ):
            # No axis is that short: these are two ends, between which a number lies.
            continue
        word = re.search(r"(\w+)$", text[: place.start()]) if place[0][0] == "[" else None
        if word and (not name.fullmatch(word[1]) or all(axis.isdigit() for axis in axes)):
            # Something is taken out of something else, or one of those that lie in it.
            continue
        if re.search(r"[=!<>]=\s*[\w.]+\s*$", text[: place.start()]):
            # What is said of one of its numbers.
            continue
        # What closes a bracket that was open ends a shape that was not understood.
        between = re.sub(r"^[^()]*\)", "", text[ends[number] : place.start()])
        told_of = (
            rf"[\"']\w+[\"']:\s*$|(?<![\w.])({known}|{_any(inside)}):?\s*$"
            if place[0][0] == "["
            else r"[\"']\w+[\"']:\s*$"
        )
        if len(axes) == 1 and not place[2] and not re.search(told_of, between):
            # Something in brackets.
            continue
        # What is said just before, in the same sentence, with the last name's own colon.
        clauses = re.split(r":\s", re.split(r"[;.]\s|\n\s*\n", " " + between)[-1])
        near = clauses[-1] if name.search(clauses[-1]) else " ".join(clauses[-2:])
        line = near.rpartition("\n")[2]
        if re.search(r"->|→|\b(returns?|gives?|outputs?)\b", line if name.search(line) else near):
            continue
        told = [one for one in name.finditer(near) if not re.search(_SO_MANY, near[: one.start()])]
        # What has the length that an argument is stands right behind nothing else's name.
        told = [one for one in told if one[1] not in axes or not re.search(r"\w", near[one.end() :])]
        # What stands right before a shape: names, one beside the other.
        apart = [n for n, (one, two) in enumerate(pairwise(told), 1)
                 if not re.fullmatch(_BESIDE, gap := near[one.end() : two.start()])
                 # What ends a line of words is not beside what begins the next.
                 or (re.fullmatch(r"[`'\"*]*\n\s*", gap) and re.search(r"\w.*$", near[: one.start()]))]  # fmt: skip
        beside = told[apart[-1] :] if apart else told
        # What stands before a name in a column of its own is of what is told above.
        column = [n for n in apart if re.search(r"\n[ \t]*[`*]*$", near[: told[n].start()])
                  and re.match(r"[`*]*(:|\t| {2})", near[told[n].end() :])]  # fmt: skip
        told = told[column[-1] :] if column else told
        entry = beside and re.search(r"\n[ \t]*[`*]*$", near[: beside[0].start()])
        if not clauses[-1].strip() or (entry and re.fullmatch(r"\W*", near[beside[-1].end() :])):
            # Behind a colon, or where a line begins with names and their shape, nothing is said of others.
            told = beside
        after = re.sub(r"^\s*(float\d*)?,\s*(?=\d)", "", text[place.end() : starts[number + 1]])
        behind = re.split(r"[;,\n(\[]|\.\s", re.sub(r"\{0, ?1\}", "0/1", re.sub(r"\n(?=with\b)", " ", after)))[0]
        words = behind.lower(), near[told[-1].end() :].lower() if told else ""
        sort = next(
            (
                sort
                for part in words
                for sort, some in _SORTS.items()
                if re.match(rf"\W*({_VECTORS}\w+ ){{0,2}}({some})", part)
            ),
            "",
        )
        last, said = axes[-1].lower(), " ".join(words)
        # A width stands last, or first of two where each is a column.
        sides = (last, axes[0].lower()) if len(axes) == 2 else (last,)
        wide = any(re.fullmatch(AXIS_WORDS["D"], axis) for axis in sides)
        named = re.search(r"\b(ids?|ind)", said) is None and wide
        if sort == "whole" and (named or re.search(_WIDE, last)) and not re.search(r"\b(int|long)", said):
            # Tokens that have a width are vectors.
            sort = ""
        shape = Shape(axes, sort)
        coloured = len(axes) > 2 and any(axis.isdigit() for axis in axes)
        if "1" not in axes and (len({*axes}) == len(axes) or coloured):
            # What is given has no axis of 1, which is made, and is no square, as matrices are, unless it is an image's.
            nameless.append(shape)
        before = text[: place.start()]
        for one in told:
            key = one[2] or one[3] or one[4] or one[5]
            if key is None:
                # What is taken out of it in a formula is rather no shape.
                formula = (
                    re.search(r"\w$", before) and place[0][0] == "[" and all(re.fullmatch("[a-z]", a) for a in axes)
                )
                of = indexed if formula else found
                first = of.setdefault((one[1],), shape)
                if not first.sort and first.axes == shape.axes and one in beside:
                    # The same once more, with what it is.
                    of[one[1],] = shape
                continue
            # In braces, the name before these.
            told_owner = one[1] or (_owner(before[: before.rindex(one[0])], known) if one[4] else None)
            # Of several in which such a thing lies, that of which is spoken.
            spoken = [(x[1],) for x in told if x[1] and x.start() < one.start() and (x[1], key) in held]
            owner = (told_owner,) if told_owner else [inside.get(key), *spoken][-1]
            if owner is not None and owner[0] in {*names, *(path[0] for path in held)}:
                found.setdefault((*owner, key), shape)
    found = {**indexed, **_listed(text, held), **found}
    for path in [path for path in found if path not in held and (*path[:-1], "0", path[-1]) in held]:
        # One of several is as each of them is.
        found[*path[:-1], "0", path[-1]] = found.pop(path)
    for path in [path for path in found if path[1:]]:
        found.pop(path[:1], None)
    for path in held:
        # What holds others is no array; but the rows of one may be taken one by one.
        for end in range(2, len(path)):
            found.pop(path[:end], None)
    if alone and len(names) == 1 and not found and nameless:
        found[names[0],] = nameless[0]
    if alone and len(names) > 1 and not found:
        # As many shapes as there are arguments, one after the other, before what is given back.
        runs = re.findall(rf"^\W*({_SHAPE.pattern}(?:\s*,\s*{_SHAPE.pattern})*)\s*(?:->|→)", text, re.MULTILINE)
        some = next(([*_SHAPE.finditer(run[0])] for run in runs), [])
        if len(some) == len(names):
            found = {(n,): Shape(_axes(place[1]), "") for n, place in zip(names, some, strict=True)}
    return found


def _each(found: re.Match[str]) -> str:
    """Two things in brackets, each with the shape that stands behind them, unless that has axes of these names."""
    name, one, two, shape = found.groups()
    return found[0] if {one, two} & {*re.findall(r"\w+", shape)} else f'{name}["0"] {shape}; {name}["1"] {shape}'


def _one_by_one(found: re.Match[str]) -> str:
    """Names and the shapes behind them, each behind its own name, where there are as many."""
    names, some = re.findall(r"\b(?!and\b)\w+", found[1]), [place[0] for place in _SHAPE.finditer(found[2])]
    return "; ".join(map(" ".join, zip(names, some, strict=True))) if len(names) == len(some) else found[0]


def of_lists(text: str, names: Sequence[str]) -> str:
    """A text with a shape behind each name of which it says that it is a list: of numbers, or of what has features.

    A list of so many numbers has a shape wherever it is told of.
    """
    text = re.sub(r"\b(?:an? )?lists? of ([A-Z]) (?=(?:floats|numbers)\b)", r"(\1,) ", text)
    # Of matrices there are several.
    text = re.sub(r"\blists? of ([A-Z]) ?[x×] ?([A-Z])\b", r"(n, \1, \2)", text)

    def shaped(found: re.Match[str]) -> str:
        says = found[2].split("(")[0].lower()
        # One letter says how many there are.
        many = r"\blists? of (?:([b-zA-Z]) )?"
        rows = next(filter(None, re.findall(many, found[2])), "n")
        if re.search(r"\bpairs?\b", found[2]):
            return f"{found[1]} (E, 2) {found[2]}"
        if re.search(rf"{many}(lists|vectors)|\b(one|an?) (list|vector)\b[^,]* (per|for (each|every))\b", says):
            inner = re.search(rf"{many}(?:lists|vectors) of ([b-zA-Z]) ", found[2])
            return f"{found[1]} ({rows}, {inner[2] if inner else 'd'}) {found[2]}"
        if one := re.search(rf"{many}(floats?|numbers?|bool|int|flags|scores|weights)", says):
            own = "d" if one[2][0] in "fn" and one[2] != "flags" and not one[1] else rows
            return f"{found[1]} ({own},) {found[2]}"
        if re.search(r"\blists? (of|per|for each)\b", says):
            return f"{found[1]} ({rows}, d) {found[2]}"
        single = re.match(r"\W*(the |an? )?([^\W\d]+ ){0,2}(list|vektor|vecteur|vector|wektor)\b", says)
        return f"{found[1]} (d,) {found[2]}" if single else found[0]

    # A column of names has no colons.
    named = rf"(?m)(?<![\w.])((?:{_any(names)}):|^[ \t]*(?:{_any(names)})[ \t]{{2,}})([^;\n]*)"
    return re.sub(named, shaped, text)


def _listed(text: str, held: Sequence[Path]) -> dict[Path, Shape]:
    """Shapes of what lies in a list, where as many stand between its brackets: ``([x (B, T), n (B,)])``.

    Or right behind its name, with what they are: ``positions ([B, T], [B, S]) int``.
    """
    found: dict[Path, Shape] = {}
    for owner in {path[:-1] for path in held if path[-1].isdigit()}:
        inside = [path for path in held if path[:-1] == owner]
        many, own = f"{{{len(inside)}}}", re.escape(owner[-1])
        named = re.search(rf"[\[(](?:\s*\w+:?\s*{_SHAPE.pattern}\s*,?){many}\s*[\])]", text)
        bare = re.search(rf"(?<![\w.]){own}[\s:=]*[\[(](?:\s*{_SHAPE.pattern}\s*,?){many}\s*[\])](.*)", text)
        listed = named or bare
        places = _SHAPE.finditer(text, listed.start() + 1, listed.end()) if listed and len(inside) > 1 else ()
        sort = "whole" if bare and not named and re.match(rf"\W*{_SORTS['whole']}", bare[bare.lastindex or 0]) else ""
        found |= {path: Shape(_axes(place[1]), sort) for path, place in zip(sorted(inside), places, strict=False)}
    return found


def _in_order(text: str, known: str, held: Sequence[Path]) -> str:
    """A text in which what lies in a list by its number is called by that: ``x: [words (B, T), ages (B,)]``."""

    def numbered(found: re.Match[str]) -> str:
        inside = [path for path in held if len(path) == 2 and path[0] == found[1] and path[1].isdigit()]
        parts = re.split(r"\w+ *(\([^()]*\))", found[2])
        if len(inside) != len(parts) // 2 or not inside:
            return found[0]
        names = (f'{found[1]}["{n}"] {shape}' for n, shape in enumerate(parts[1::2]))
        return "".join(chain.from_iterable(zip(parts[::2], (*names, ""), strict=True)))

    return re.sub(rf"(?<![\w.])({known}):? *\[((?:[^\[\]()]|\([^()]*\))*)\]", numbered, text)


def _bracketed(text: str, known: str) -> str:
    """A text with brackets around shapes that have none: ``x  B, N, d`` behind a name, and ``B x N x d`` anywhere.

    known: names of arguments, one of which a line begins with.
    """
    # What is one, or else as long as something, is as long.
    either = r"(?<=[(\[,]) *(?:1 *(?:or|[|/]) *([A-Za-z]\w*)|([A-Za-z]\w*) *(?:or|[|/]) *1)(?= *,)"
    text = re.sub(either, r" \1\2", text)
    # So many times a width, in one word.
    text = re.sub(r"(?<=[(\[,]) *(\d+) +([A-Za-z]\w*)(?= *[,)\]])", r" \1\2", text)
    word, end = (
        r"(?:(?!(?:over|of|on|in|to|by|for|from|with|and|is|are|where|an?|the)\b)[A-Za-z]\w{0,9}|\d+)",
        r"(?=[ \t]*$|[ \t]{2,}|[ \t]*[;.,(:]|[ \t]+(?:of|with|where|for|bool|int|float))",
    )
    # What is called x is no sign for times.
    sign = "×" if re.fullmatch(known, "x") else "[x×]"
    part = rf"(?:{word}|\({_OF}\))"
    within = rf"[(\[] *({part}(?: {sign} {part})+) *[)\]]"
    text = re.sub(within, lambda m: f"({', '.join(x.strip('()') for x in re.split(f' {sign} ', m[1]))})", text)
    times = rf"(?<![\w(\[])({word}(?: {sign} {word})+)\b(?! *[-+*/(=])"
    text = re.sub(times, lambda m: f"({re.sub(f' {sign} ', ', ', m[1])})", text)
    short = r"(?:[A-Za-z]\w{0,3}|\d+)"
    name = rf"^([ \t#]*(?:{known})(?:, *(?:{known}))*[ \t]*(?::[ \t]*|[ \t]{{2,}}))"
    listed = rf"{name}({short}(?:, ?{short})+){end}(?!,)"
    text = re.sub(listed, r"\1(\2)", text, flags=re.MULTILINE)
    single = rf"(?<![\w.])((?:{known}): )([A-Z]){end}"
    return re.sub(single, r"\1(\2,)", text)


def _axes(words: str) -> tuple[str, ...]:
    """The words of a shape; what may be any number of axes is one of samples, or none where there are enough."""
    axes = [re.sub(r"\s+", " ", axis).strip() for axis in words.split(",")]
    known = [axis for axis in axes if not re.fullmatch(_ANY, axis)]
    return tuple(known if len(known) > 2 else ["batch", *known] if len(known) < len(axes) else known)


def _any(words: Iterable[str]) -> str:
    return "|".join(sorted(map(re.escape, words), key=len, reverse=True)) or r"(?!)"


def _owner(before: str, known: str) -> str | None:
    """The argument whose braces are open where a text ends; or else what may be None instead."""
    opened = re.search(rf"(?<![\w.])(?:({known})\s*[:=]?|(\w+):? None or)\s*\{{[^{{}}]*$", before)
    return opened[1] or opened[2] if opened else None


def size(axis: str, sizes: Mapping[str, int]) -> int | None:
    """The length of an axis that is a number, or made of others, as ``P + n`` or ``2H``; None if one is not known."""
    if axis in sizes:
        return sizes[axis]
    text = re.sub(r"(?<![\w])(\d+)([A-Za-z_]\w*)", r"\1*\2", axis.translate(_SIGNS))
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None

    def value(node: ast.AST) -> int | None:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name):
            return sizes.get(node.id)
        if isinstance(node, ast.BinOp):
            one, two = value(node.left), value(node.right)
            if one is None or two is None or max(one, two) > 4096:
                return None
            both = {ast.Add: one + two, ast.Sub: one - two, ast.Mult: one * two}
            both |= {ast.Pow: one**two} if 0 <= two < 4 else {}
            both |= {ast.FloorDiv: one // two, ast.Div: one // two} if two else {}
            return both.get(type(node.op))
        return None

    return value(tree)


def image(axes: Sequence[str]) -> tuple[int, int] | None:
    """Which axes are height and width, where two that stand together are called so."""
    named = [re.fullmatch(r"(h|height)(_\w+|[a-z]?\d*)|(w|width)(_\w+|[a-z]?\d*)", axis.lower()) for axis in axes]
    for (i, one), (j, two) in pairwise(enumerate(named)):
        if one and two and one[1] and two[3] and len(axes) > 2:
            return i, j
    return None


def unseen(letters: str) -> Iterator[str]:
    """Letters for axes that are nothing else."""
    yield from (letter for letter in "ijklmoqstuvxyzabcdefg" if letter not in letters)


def unpacked(text: str) -> Iterator[str]:
    """The names that shapes are unpacked into, such as B, T, D in ``B, T, D = x.shape``."""
    end = 0
    shape = r"=\s*(?:q|k|v|x|query|queries|key|value|inputs?|hidden_states|Q|K|V|X)\w*\.(?:shape|size\(\))(?!\[)"
    for found in re.finditer(shape, text):
        # Looked for from behind: of a long text, every word could be the first of many names.
        yield re.split(r"[^\w*, ]", text[end : found.start()].rstrip())[-1]
        end = found.end()


def layout_of(words: str) -> str | None:
    """A layout such as BHTD from the words of a shape."""
    parts = [part.strip(" ()[]").lower() for part in re.split(r"[,x×]|\s+(?=\w)", words) if part.strip(" ()[]")]
    parts = [p for p in parts if p]
    if not 2 <= len(parts) <= 4:
        return None
    found = ""
    for number, part in enumerate(parts):
        axis = next((letter for letter, pattern in AXIS_WORDS.items() if re.fullmatch(pattern, part)), None)
        if axis is None and part in ("_", "1", "...", "…") and number == 0:
            axis = "B"
        if axis == "T" and part == "n" and number == 0 and len(parts) > 2:
            axis = "B"
        if axis is None:
            return None
        found += axis
    if len(set(found)) < len(found):
        return None
    # Of heads and their features, what comes first are positions.
    found = "THD" if found == "BHD" and parts[0] == "n" else found
    return found if found in ("TD", "BTD", "TBD", "HTD", "THD", "BHTD", "BTHD", "TBHD", "DT") else None
