"""What a line says that a mask means: which of its values keep, hide, or are added."""

from __future__ import annotations

import re

# What is said of the masks of a library's function.
_ELSEWHERE = (
    r"\b(sdpa|torch|keras|jax|multiheadattention|scaled_dot_product_attention)\b.{0,9}\b(wants?|expects?|needs?)\b"
)
# What fills up, and what does not, in other languages; the last two stand behind what they are made of.
_ABROAD = (
    (
        "padding",
        r"remplissage|bourrage|relleno|(en|preen)chimento|riempimento|(auf)?f(ü|ue)ll\w*|(aan|op)vulling|(do|u|wy)pełnieni\w*"
        r"|dolgu|utfyllnad",
    ),
    ("invalid", r"(ung(ü|ue)l|onge?l)[td]ig\w*|inv[áà]lid[aeio]s?|nieważn\w*|geçersiz"),
    (
        "real",
        r"echte?[mnrs]?|vraie?s?|r[ée]el(le)?s?|ver[aoei]|verdadei?r[oa]s?|prawdziw\w*|gerçek|riktig\w*|v[áà]lid[aeio]s?"
        r"|g(ü|ue)ltig\w*|geldig\w*|ważn\w*|geçerli",
    ),
    (
        "hidden",
        r"(not|no)( (an?|any|the))?( actual(ly)?)? (real|valid)"
        r"|(kein\w*|geen|nicht|niet|nie|pas|sans|sin|senza|sem|non|não|no es)( [^\W\d]+){0,2} real",
    ),
    ("no", r"kein\w*|geen|ohne|zonder|sans|sin|senza|sem|bez"),
)
# What stands before the name of a thing, and what says where others are.
_SOME = r"( the| an?| any| all| every| each| its)?( \w+'s)?"
_PLACES = "outside|beyond|behind|past|after|inside|within"
_PLAINLY = "mask|ignore|pad|drop|hid|block|not|keep|attend|allow|visible|valid"


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
    line = re.sub(r"\b(ones|1s?|0s?|zeros)\b( ?/ ?| and | or )(zeros|0s?|1s?|ones)\b", "numbers", line)
    line = re.sub(r"\b(in|at) (row|column|position|place|entry|index)\b[^.;]{0,40}?(?=means?\b|indicates?\b)", "", line)
    added = re.search(
        r"additive(?! (attention|scor|energ|align))|\badded to\b|0\s*/\s*-\s*(inf|1e|float|∞)|-\s*(inf\w*|[\d.]+e\d+)\s+(to|where|for|at|means|on|=|elsewhere|otherwise)|−∞|zeros? .*-\s*inf",
        line,
    )
    if added and not (booleans and re.search(r"\b(true|false)\b", line)):
        # Where booleans are spoken of too, and not here, these are something else.
        return None if booleans else "additive"
    if not re.search(r"\b(true|1|ones?)\b", line) and re.search(
        r"\b(0|zeros?)\b.*\b(lowest|negative|finfo\S*min)\b", line
    ):
        return None if booleans else "additive"
    marked = re.search(
        r"\b(invalid|pad\w*|masked|ignored|hidden|valid|real|visible|kept|allowed)\b[^.;,]{0,40}?"
        r"\b(?:indicated|marked|denoted|flagged|represented)\s+(?:by|as|with)\W{0,3}(?:true|1s?|ones?)\b",
        line,
    )
    if marked:
        return "drop" if marked.group(1)[:3] in ("inv", "pad", "mas", "ign", "hid") else "keep"
    # One of something for each of others is a number of things.
    yes = re.search(
        rf"(?<![\w.-])(true|1(?:\.0)?s?|ones|non-?zero|one(?! (\w+ )?(for (each|every)|per|a|an)\b))(?!\.?\w)[^.;,0]{{0,12}}?(=|:|(?<=true )({_PLACES})\b|\b(means?|marks?|indicates?|is|are|will be|where|for|at|on|to|sur|pour|para|sobre|auf|für|bei|keeps?|drops?|may|hides?|blocks?|allows?)\b|,|->|→|-)",
        line,
    )
    if yes and (says := _said(re.split(r"\bfalse\b|\b0s?\b|\bzero", line[yes.end(1) :][:70])[0])):
        return says
    no = re.search(
        rf"(?<![\w.-])(false|0(?:\.0)?s?|zeros?)(?!\.?\w)\s*(=|:|(?<=false )({_PLACES})\b|means?|marks?|is|are|where|for|at|on|,|->|→|-|positions?|entries)+",
        line,
    )
    rest = line[no.end(1) :][:50] if no else ""
    if no and no.group(1) != "false" and not re.search(_PLAINLY, rest):
        # Of numbers much is said that is no mask.
        return None
    rest = re.split(r"\btrue\b|\b1s?\b|\bone", rest)[0]
    says = _said(rest) or _said(re.sub(r"[()]", "", rest))
    return {"keep": "drop", "drop": "keep", None: None}[says]


def _said(rest: str) -> str | None:
    """keep or drop, where what stands behind a value says it."""
    rest = re.split(r";|\. ", rest)[0].replace("*", "")
    # What stands in brackets behind it is a remark.
    rest = re.sub(r"(?<=\w) *\([^()]*(\)|$)", "", rest)
    rest = re.sub(
        r"\bno(ne|body)?\b( \w+)? ((may|can|must|should|shall|will) (?!(be )?(hid|drop|ignor|mask|exclud|block))\w+"
        r"|(looks?|attends?|sees?|reads?|uses?|gets?)\b)",
        "hidden",
        rest,
    )
    rest = re.sub(r"\bkeeps?\b[^.;,]{0,40}?\b(away|out|off|apart)\b", "hidden", rest)
    # What is said first is not what it is not.
    rest = re.sub(r"(?<=\w) *,? (and|but) (is |are |was |were )?not \w+", "", rest)
    # Nor is it what it need not be.
    rest = re.sub(r",?( and| but| which)?( it| they)? need(s|ed)? ?(not|n't)\b[^.;]*", "", rest)
    # Nothing of something is what that is not.
    some = "tokens?|words?|keys?|frames?|elements?|entr(y|ies)|items?|positions?|nodes?|inputs?|data|content"
    rest = re.sub(
        r"\b(no|never|without|absence of)( any)? (pad|mask)\w*|\bpad\w* (is|are)(n't| not)\b(?! \w)", "kept", rest
    )
    rest = re.sub(rf"\b(no|without|absence of)( an?| any| real| valid| actual)* ({some})\b", "hidden", rest)
    rest = re.sub(
        r"\b(empty|absent|unused|unseen|dead|missing|lost|broken|deleted|removed|rejected|suspended|withdrawn|cancell?ed|faulty|corrupt\w*|outside|filler|fill(s|ing|ed up)?\b|(leaves?|left)\b[^.;,]*\bout|(after|past|beyond|behind) the (end|last)|(after|past|beyond|behind)(?= (the |its )?(real|valid|actual)))\b",
        "hidden",
        rest,
    )
    # What it lies outside of, or fills up, is something else.
    rest = re.sub(
        rf"\b(hidden|pad\w*)( of| from| around| beside| behind| after| beyond| past)?{_SOME} (real|valid|actual)( \w+)?",
        r"\1",
        rest,
    )
    rest = re.sub(rf"\bnot (in|inside|within|on|(a )?part of|of|from){_SOME} (real|valid|actual)\b", "hidden", rest)
    if re.search(
        r"(not|never|don't|cannot|n't)( |$|[.,;])|mask(ed|s)? ?(out)?|ignore|pad(ding|ded)?\b|drop|hid(e|den)|block|forbid|exclude|disallow|invisible|invalid",
        rest,
    ) and not re.search(
        r"not (masked|padded|padding|ignored|hidden|invalid)|real|non-pad|unmasked|may (attend|look|be seen)|keep|kept",
        rest,
    ):
        return "drop"
    if re.search(
        r"keep|kept|attend|attention|allow|valid|visible|real|see|use|may|participat|takes? part|look|not (masked|padding|padded|ignored|hidden)|non-pad|unmasked|can\b|(token|word|frame)s?\b(?! (is|are|was|were|has|have)\b)|present|exists?\b",
        rest,
    ):
        return "keep"
    return None
