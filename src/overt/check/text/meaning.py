"""What a line says that a mask means: which of its values keep, hide, or are added."""

from __future__ import annotations

import re

# What is said of the masks of a library's function.
_ELSEWHERE = (
    r"\b(sdpa|torch|keras|jax|multiheadattention|scaled_dot_product_attention)\b.{0,9}\b(wants?|expects?|needs?)\b"
)
# No and without, in other languages.
NOT = r"kein\w*|geen|nicht|niet|nie|pas|ohne|zonder|sans|sin|senza|sem|bez|não|no es|non(?!-)"
# What fills up, and what does not, in other languages; the last two stand behind what they are made of.
_ABROAD = (
    (
        "padding",
        r"((no|na|nos|nas) )?(remplissage|bourrage|relleno|(en|preen)chimento|riempimento|(auf)?f(ü|ue)ll\w*|(aan|op)vulling|(do|u|wy)pełnieni\w*"
        r"|dolgu|utfyllnad)",
    ),
    ("invalid", r"(ung(ü|ue)l|onge?l)[td]ig\w*|inv[áà]lid[aeio]s?|nieważn\w*|geçersiz"),
    (
        "real",
        r"echte?[mnrs]?|vraie?s?|r[ée]el(le)?s?|ver[aoei]|verdadei?r[oa]s?|prawdziw\w*|gerçek|riktig\w*|v[áà]lid[aeio]s?"
        r"|g(ü|ue)ltig\w*|geldig\w*|ważn\w*|geçerli",
    ),
    ("no", NOT),
)
# Where something lies, which says more than what is said of what it lies at.
_AT = r"( of)?( the| its?| an?| any| all| every| each| this| that)?( \w+'s)?( real| valid| actual)?( [^\W\d]\w*)?"
# What something is added for that is no content.
_PURPOSE = r"(to (make|fill|reach|complete|get|bring|form|match|obtain|round|equal\w*)|so that)\b"
# What a clause is made of, the first that fits: what hides (-) or keeps (+), and what turns round the next of these, or the
# last.
_SIGNS = (
    ("-", r"(keep|kept)s?\b[^.;,]{0,40}?\b(away|out|off|apart)\b|away\b"),
    ("-", r"(leaves?|left|switched|turned|cut) (\w+ )?(out|off)\b"),
    ("-", rf"(outside|beyond|past)\b{_AT}|(after|behind)( the| its)? (end|last|real|valid|actual)\b( \w+)?"),
    ("+", rf"(inside|within)\b{_AT}"),
    ("last", r"(from|by|to) (no one|nobody|none|nothing)\b|nothing\b"),
    ("next", r"(everything|all|any\w*) (but|save)\b|except\b|(other|rather) than\b|apart from\b|instead of\b"),
    ("next", r"(not|no|never|none|nobody|neither|nor|without|cannot|absence of|\w+n't)\b"),
    ("next", r"non-?(?=pad|mask|empty|hid|miss|ignor|block)"),
    ("+", r"un-?(masked|padded|hidden|blocked|ignored)\b"),
    ("-", rf"(added|appended|inserted)\b[^.;,]{{0,40}}?\b{_PURPOSE}|(only|merely|just)( been)? (added|appended|inserted)\b"),
    ("-", r"pad(s|ded|ding)?\b|mask(s|ed|ing| out)\b|((?<=not )|(?<==)|(?<== ))mask\b"),
    ("-", r"(ignor|hid(e|ing|den)|drop|block|forbid|exclu|disallow|skip|prohibit|discard|remov)\w*"),
    ("-", r"(invisible|invalid|empty|absent|unused|unseen|dead|missing|lost|broken|deleted|rejected|suspended|withdrawn"
          r"|cancell?ed|faulty|corrupt\w*|fillers?|fill(s|ing|ed up)?|unavailable|inaccessible)\b"),
    ("+", r"(real|valid|actual|genuine|visible|keeps?|kept|allow\w*|attend\w*|sees?|seen|looks?|looked|reads?|used?|uses"
          r"|takes? part|took part|participat\w*|present|exists?|existing|live|alive|available|contribut\w*|counts?|counted"
          r"|weights?|chosen|trusted|permitted|included?)\b"),
)  # fmt: skip
_TOKEN = re.compile("|".join(rf"(?P<s{n}>\b(?:{pattern}))" for n, (_, pattern) in enumerate(_SIGNS)))
# What keeps where nothing else is said.
_WEAK = r"\b(may|can|attention|tokens?|words?|frames?)\b(?! (is|are|was|were|has|have)\b)"
# What stands between a value and what it means, and between that and a value behind it.
_LINK = (
    r"=|:|,|->|→|-|\b(means?|marks?|indicates?|is|are|will be|where|wherever|when|whenever|for|at|on|to|sur|pour|para|sobre"
    r"|auf|für|bei|keeps?|drops?|may|hides?|blocks?|removes?|ignores?|allows?|outside|beyond|past|after|behind|inside|within)\b"
)
_BEHIND = (
    r"(\b(is|are|was|were|the)|[(=]|\b(marked|indicated|denoted|flagged|represented|shown|encoded|labell?ed) (by|with|as)( a)?)"
    r" *[\"'`]?$"
)
# Before what is a number of something, or one of several.
_NUMBER = (
    r"([<>]=?|\b[a-z] ?=|\b(row|column|index|position|place|entry|frame|token|sample|slot|level|step|layer|item|all|some|any"
    r"|of|must be|may be|can be|least|most)) *$"
)
_PLAINLY = "mask|ignore|pad|drop|hid|block|remov|not|keep|attend|allow|visible|valid"
_VALUES = {
    "keep": r"(?<![\w.-])(true|1(?:\.0)?s?|non-?zero|(?<!\w )ones|(?<=by )ones?|(?<=with )ones?|(?<=the )ones|(?<=are )ones"
            r"|one(?= (?:=|:|means|where|for (?!(?:each|every)\b))))(?!\.?\w)",
    # What is filled up with zeros is no mask.
    "drop": r"(?<![\w.-])(false|0(?:\.0)?s?|zeros?(?![- ](?:pad|fill)))(?!\.?\w)",
}  # fmt: skip
_TURNED = {"keep": "drop", "drop": "keep", None: None}


def meaning(line: str, booleans: bool) -> str | None:
    """keep, drop or additive, where a line says it; booleans: whether it is said beside that it may be of these."""
    line = " ".join(line.split())
    if re.search(_ELSEWHERE, line):
        return None
    for word, others in _ABROAD:
        line = re.sub(rf"\b({others})\b", word, line)
    # Its shape, and what it is made of, say nothing yet.
    values = r"(?![^)\]]*\b(inf\w*|true|false|\d+e\d+)\b)"
    line = re.sub(rf"[(\[]{values}(?=[^)\]]*[a-z])[\w*+/ -]+(, ?[\w*+/ -]+)+,?[)\]]", "", line)
    # A weight of zero is no value of the mask.
    line = re.sub(
        r"\b(weights?|shares?) ((of|is|are|becomes?|(must|will|shall) be) )?(zero|0(\.0+)?)(?!\.?\w)|\bzero weights?\b",
        "no weight",
        line,
    )
    one, none, between = r"\b(ones|1s?|true)\b", r"\b(zeros|0s?|false)\b", "( ?/ ?| and | or )"
    line = re.sub(rf"{one}{between}{none}|{none}{between}{one}", "numbers", line)
    line = re.sub(r"\b(in|at) (row|column|position|place|entry|index)\b[^.;]{0,40}?(?=means?\b|indicates?\b)", "", line)
    added = re.search(
        rf"additive(?! (attention|scor|energ|align))|\badded (?!{_PURPOSE})to\b|0\s*(/|or)\s*-\s*(inf|1e|float|∞)"
        r"|-\s*(inf\w*|[\d.]+e\d+)[\"')]*\s+(to|where|for|at|means|on|=|elsewhere|otherwise)|−∞|zeros? .*-\s*inf",
        line,
    )
    if added and not (booleans and re.search(r"\b(true|false)\b", line)):
        # Where booleans are spoken of too, and not here, these are something else.
        return None if booleans else "additive"
    if not re.search(r"\b(true|1|ones?)\b", line) and re.search(
        r"\b(0|zeros?)\b.*\b(lowest|negative|finfo\S*min)\b", line
    ):
        return None if booleans else "additive"
    # Of two sorts of masks, each may say something else.
    if {"keep", "drop"} <= {_said(means) for means in re.findall(r"\b(?:1|true) ?(= ?\w+)", line)}:
        return None
    for value, pattern in _VALUES.items():
        for found in re.finditer(pattern, line):
            before = re.split(r"[.;,:]", line[: found.start()])[-1]
            after = re.split(_VALUES[str(_TURNED[value])], line[found.end() :])[0]
            if re.search(_NUMBER, before) or re.match(r" *[<>]", after):
                continue
            if found[0][0] in "0z" and not (re.search(_VALUES["keep"], line) or re.search(_PLAINLY, after[:50])):
                # Of numbers much is said that is no mask.
                continue
            if says := _of_value(before, after):
                return says if value == "keep" else _TURNED[says]
    return None


def _of_value(before: str, after: str) -> str | None:
    """keep or drop, of what stands before a value that ends its clause, or behind any other."""
    if re.match(r"[\"'`)\]]*\s*(values?|entries)?\s*([.;,)]|$|(and|else\w*|otherwise)\b)", after) and re.search(
        _BEHIND, before
    ):
        return None if re.search(r"\b(must|at least|not)\b", before) else _said(before)
    if not re.match(rf"[^.;,0]{{0,12}}?({_LINK})", after):
        return None
    says = _said(after)
    return _TURNED[says] if re.search(r"\b(no|not|never|none)\b", before) else says


def _said(text: str) -> str | None:
    """keep or drop, where the first clause that says either says no other."""
    # What they are may be said behind it.
    text = re.split(r"(;|\.) (?!(they|these|those|such)\b)", text)[0].replace("*", "")
    # What stands in brackets behind it is a remark.
    text = re.sub(r"(?<=\w) *\([^()]*(\)|$)", "", text)
    # What need not be so says nothing.
    text = re.sub(r",?( and| but| which)?( it| they)? need(s|ed)? ?(not|n't)\b[^.;]*", "", text)
    denied = False
    for clause in re.split(r"[,.:;]", text):
        signs, turned = list[str](), False
        for found in _TOKEN.finditer(clause):
            sign = _SIGNS[int(str(found.lastgroup)[1:])][0]
            if sign == "next" and signs and not clause[found.end() :].strip():
                # What something is not, behind it.
                sign = "last"
            if sign == "next":
                turned = True
            elif sign == "last":
                signs = [*signs[:-1], "+" if signs[-1] == "-" else "-"] if signs else ["-"]
            else:
                signs.append(sign if not turned else "+" if sign == "-" else "-")
                turned = False
        denied |= turned
        if signs:
            return None if len(set(signs)) > 1 else "keep" if signs[0] == "+" else "drop"
    return "drop" if denied else "keep" if re.search(_WEAK, text) else None
