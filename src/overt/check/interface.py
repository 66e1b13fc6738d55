"""What names, annotations, comments and documentation say about a candidate's arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

# The first that matches the whole normalised name is the role.
_ROLES: tuple[tuple[str, str], ...] = (
    ("q", r"x_?q|q_?x|inputs?_?q|q_?in|xq|q|query|queries|qs|xq|query_?vec(tor)?s?|query_?states?|q_?heads|target_?hidden|dec(oder)?_?(states?|hidden|h|outputs?|query)|s_?prev|prev_?state|hidden_?dec|s_?i|ht|h_?t|current(_?token)?|cur|consultas?|requetes?|requête|abfragen?|anfragen?|sorgu"),
    ("k", r"(memory|mem|enc|encoder|src|source|bank)_?(k|keys?)|claves?|llaves?|cles?|clé|schluessel|schlüssel|chaves?|anahtar|x_?k|inputs?_?k|k_?x|k_?in|k|keys?|ks|xk|key_?vec(tor)?s?|key_?states?|k_?heads"),
    ("v", r"(memory|mem|enc|encoder|src|source|bank)_?(v|values?|vals?)|valor(es)?|valeurs?|werte?|deger|x_?v|inputs?_?v|v_?x|v_?in|v|values?|vs|xv|val|vals|value_?vec(tor)?s?|value_?states?|v_?heads"),
    ("qkv", r"qkv|packed|packed_?qkv|qkv_?packed|mixed_?qkv"),
    ("kv", r"kv|packed_?kv"),
    ("context", r"context|memory|mem|enc(oder)?_?(out|outs|outputs?|states?|hidden|hiddens|hidden_?states?|h|hs|seq)|source|annotations|hs|y|xa|cross|ctx|encoded|(inputs?|x)_?kv|kv_?(in|inputs?|states|seq|source|x)"),
    ("x", r"x|xs|inputs?|hidden_?states?|hidden|h|src|tgt|trg|tokens|emb|embs|embeddings?|embedded|seqs?|sequences?|inp|input_?tensor|features?|data|words|(token_?|input_?|src_?|tgt_?|trg_?)?ids|z|tensor|arr|array|states|t|u|a|i|(word_?)?(vectors?|vecs?)|latents?|frames?|patches|images?|prompt|token_?(vectors?|embeddings?)"),
    ("scores", r"scores?|logits|s|att_?scores|similarit(y|ies)|energy|energies"),
    ("causal", r"(is_?|use_?)?causal(_?mask)?|autoregressive|masked|look_?ahead|use_?causal_?mask|decoder_?mask|unidirectional"),
    ("query_mask", r"(q|query|queries)_?(pad(ding)?_?)?mask"),
    ("padding", r"v(alue)?_?mask|(src_|tgt_)?key_padding_mask|padding_?mask|pad_?mask|key_?mask|padding|kv_?mask|key_?valid|valid|input_?mask|valid_?mask|src_?mask|is_?pad|pads?|src_?key_?padding|keys?_?keep|\w*pad(ding)?_?masks?|(encoder|memory|source|context)\w*_?masks?"),
    ("mask", r"(attn|attention|att|self_attn|keep|visible|allowed|additive|float|bool|m|drop)_?mask|mask|masks|m|keep|allowed|visible|blocked|mask_?bias|\w*_?masks?"),
    ("query_lengths", r"(q|query|tgt|target)_?(seq_?)?(lens|lengths)"),
    ("lengths", r"lengths?|valid_?lens?|valid_?lengths?|seq_?lens|seq_?lengths|lens|(key|kv|k|src|source|enc|input|memory)_?(lengths?|lens?)|(?!cu_)\w+_?(lens|lengths)"),
    ("scale", r"scale|scaling|softmax_?scale|sm_?scale|scale_?factor"),
    ("cap", r"soft_?cap|logits?_?(soft_?)?cap|cap|attn_?(logit_?)?softcap(ping)?|score_?cap|logits?_?softcap(ping)?|attn_?softcap"),
    ("window", r"window|window_?size|sliding_?window|local_?window|w|attention_?window|local_?window_?size|band|left_?window"),
    ("slopes", r"(alibi_?)?slopes?"),
    ("bias", r"bias|attn_?bias|att_?bias|attention_?bias|position_?bias|rel_?bias|pos_?bias|score_?bias|additive_?bias"),
    ("heads", r"(n|num|nb|number_of|n_query|num_query|n_q|num_q|num_attention|attention|q|query)_?heads?|heads?|nhead|nheads|n_?h|num_?attention_?heads|n_?head|h"),
    ("groups", r"(n|num|nb)_?(kv|key_?value|k|key)_?heads?|kv_?heads?|n_?kv|num_?kv|num_?key_?value_?heads|n_?groups|num_?groups|groups|g"),
    ("repeats", r"n_?rep|repeats?|num_?rep|reps?|n_?repeats?|num_?groups_per|r|group_?size|num_key_value_groups|times"),
    ("head_dim", r"(head|d|dim|per)_?(head|dim|k|key|v|value|q)s?|d_?kv|d_?qk|head_?(dim|size|width)|dim_?head|d_?head|d_?k|d_?v|dk|dv|d_?q|key_?dim|value_?dim|size_per_head|kdim_?head|hs|depth"),
    ("model_dim", r"(d|dim|embed|emb|embedding|hidden|model|n|in|out|input|output|feature|query|key|value|enc|dec|encoder|decoder)_?(model|dim|dims?|size|embd|emb|embed|hidden|hid|features?|in|out|width|channels)|dim|d|embed_?size|dmodel|hidden|units|width|n_?embd|n_?state|channels|c|features|e|k|k_?dim|v_?dim|enc_?hid_?dim|dec_?hid_?dim"),
    ("att_dim", r"(att|attn|attention|align|alignment)_?(dim|size|units|hidden)|num_?hiddens|a"),
    ("length", r"(max|block|context|ctx|seq|sequence|target|src|tgt|n|num|query|q|total)_?(len|length|size|window|seq_?len(gth)?|pos|positions?|position_?embeddings|ctx|steps|timesteps|tokens)|max_?len|max_?length|t|l|n|length|size|seq|n_?ctx|max_sequence_length|max_?position"),
    ("key_length", r"(key|kv|k|src|source|memory|total|s)_?(len|length|seq_?len)|s|total_?len|lk|tk|s_?len"),
    ("vocab", r"(n_?|src_|tgt_)?vocab(_?size)?|num_?embeddings|ntoken|n_?tokens|vocab_?len"),
    ("drop", r"dropout|drop|dropout_?(p|rate|prob)|attn_?(dropout|drop|pdrop)|p|rate|drop_?(prob|rate)|p_?drop|attention_?dropout|(attn|resid|proj)_?(p)?drop(out)?|pdrop|att_?dropout|dropout_?ratio"),
    ("temperature", r"temperature|temp|tau"),
    ("training", r"training|train|is_?training"),
    ("deterministic", r"deterministic|inference"),
    ("offset", r"offset|start_?pos|pos_?offset|position_?offset|start|cache_?position|past_?len(gth)?|pos_?start|seq_?offset|cache_?len"),
    ("positions", r"positions?|pos|position_?ids|pos_?ids|p|idx|m|t|index"),
    ("cache", r"cache|kv_?cache|past|layer_?past|past_?key_?values?|past_?kv|state|layer_?cache|prev_?kv"),
    ("use_cache", r"use_?cache"),
    ("want_weights", r"(need|return|output|with|ret|get)_?(weights?|attn|attention|attentions?|attn_?weights|attention_?weights|attention_?scores|att|probs?)"),
    ("want_lse", r"return_?(lse|softmax_?lse|logsumexp)"),
    ("axis", r"axis|dim|ax|d"),
    ("base", r"base|theta|rope_?theta|freq_?base|n|max_?period|rope_?base|temperature_?base"),
    ("cos", r"cos|c|cosine|cos_?cached"),
    ("sin", r"sin|s|sine|sin_?cached"),
    ("first", r"batch_?first"),
    ("seed", r"seed|rng|prng|prng_?key|rng_?key|key|generator|random_?state"),
    ("params", r"params?|weights?|parameters|p|w|theta"),
    ("config", r"config|cfg|args|hparams|hp|conf|options|c|model_?args"),
)  # fmt: skip
_WEIGHTS: tuple[tuple[str, str], ...] = (
    ("Wqkv", r"w_?qkv|qkv_?(w|weight|proj|kernel)|in_?proj|in_weight|c_?attn|w_?in|wqkv|qkv_?matrix"),
    ("bqkv", r"b_?qkv|qkv_?(b|bias)|in_?(proj_?)?bias"),
    ("Wq", r"[wp]_?q|w_?query|wquery|q_?(w|weight|proj|kernel|matrix|mat)|query_?(w|weight|proj|kernel|matrix)|wqs"),
    ("Wk", r"[wp]_?k|w_?key|wkey|k_?(w|weight|proj|kernel|matrix|mat)|key_?(w|weight|proj|kernel|matrix)"),
    ("Wv", r"[wp]_?v|w_?value|wvalue|v_?(w|weight|proj|kernel|matrix|mat)|value_?(w|weight|proj|kernel|matrix)"),
    ("Wo", r"[wp]_?o|w_?out|wout|o_?(w|weight|proj|kernel|matrix|mat)|out(put)?_?(w|weight|proj|kernel|projection)|w_?output|c_?proj"),
    ("bq", r"b_?q|q_?b(ias)?|query_?bias"),
    ("bk", r"b_?k|k_?b(ias)?|key_?bias"),
    ("bv", r"b_?v|v_?b(ias)?|value_?bias"),
    ("bo", r"b_?o|b_?out|o_?b(ias)?|out(put)?_?bias"),
)  # fmt: skip
_INPUTS = ("q", "k", "v", "x", "context", "qkv", "kv", "scores")
# Letters of shapes in comments: batch, heads, queries or keys, width.
_AXES = {
    "B": r"b|bs|bsz|batch|batch_?size|bsize|nbatch|batches|n_?batch(es)?|samples",
    "H": r"h|g|heads?|(n|num|kv|q|n_?kv|num_?kv)_?heads?|nh|nhead|hq|hkv|h_?kv|h_?q|kvh|kv|n_?h|num_?attention_?heads",
    "T": r"t|s|l|n|m|i|j|seq|seq_?len(gth)?|seqlen|len(gth)?|lq|lk|tq|tk|(q|k|kv|src|tgt|query|key|target|source|n|s)_?(len|length|seq|seq_?len)|n_?(q|k)|(l|t|n|s)_?(q|k|kv|v)|time|time_?steps?|tokens?|steps|positions?|queries|keys|sequence(_?length)?|n_?queries|n_?keys|num_?(queries|keys|tokens)|num_?tokens|t1|t2|q|k|length_?[qk]|words|rows",
    "D": r"d|e|c|f|dim|hd|hs|dh|dk|dv|(d|head|model|embed|emb|embedding|hidden|key|value|h)_?(k|v|q|dim|size|model|head|embed|width|h|embd)|dmodel|depth|channels|features?|width|hidden|embed|d_?in|d_?out|embd|h\*d|h\*e|n_?embd|dim_?head|dims?|units|h_?d|vector|columns",
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One argument of the candidate."""

    name: str
    role: str | None
    required: bool
    default: Any
    annotation: str
    kind: str
    # the roles of what is packed into it as a list, such as inputs = [query, value, key]
    parts: tuple[str, ...] = ()


def plain(name: str) -> str:
    """A name without case and decoration."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    return (
        re.sub(r"_(proj(ected)?|layer|tensor|array|arr|matrix|mat|in|input|seq|s_?bhtd|bhtd|bthd|btd|th|np)$", "", name)
        or name
    )


def role(name: str, among: tuple[str, ...] | None = None) -> str | None:
    """The role that a name suggests, of those asked for."""
    bare = re.sub(r"_proj(?=_(weight|bias|kernel)$)", "", name.lower().strip("_"))
    for table in (_WEIGHTS, _ROLES):
        for found, pattern in table:
            if (among is None or found in among) and (
                re.fullmatch(pattern, bare) or re.fullmatch(pattern, plain(name))
            ):
                return found
    return None


class Interface:
    """A callable of the candidate: its arguments with their roles, and its text."""

    def __init__(self, description: dict[str, Any], rows: list[dict[str, Any]], overrides: dict[str, str]) -> None:
        self.description = description
        self.name = description["name"]
        self.overrides = overrides
        self.arguments = _roles([Argument(role=overrides.get(row["name"]) or self._role(row), **row) for row in rows])
        if rows is description["parameters"]:
            self.arguments = [self._unpacked(a) for a in self._asked()]
        self.by_role = {a.role: a for a in reversed(self.arguments) if a.role}
        self.by_role |= {part: replace(a, role=part, parts=()) for a in self.arguments for part in a.parts}

    def _role(self, row: dict[str, Any]) -> str | None:
        found = role(row["name"])
        name = row["name"]
        if (
            found == "mask"
            and name in ("m", "M")
            and re.search(rf"\b{name} *@|(k|v|key|value|kv|proj)\({name}\)|einsum\([^()]*\b{name}\b", self.code)
        ):
            # The memory, which is projected.
            return "context"
        return found

    def _asked(self) -> list[Argument]:
        """The arguments, where x and a context trade places if the code makes its query of the context."""
        found = {a.role: a.name for a in self.arguments if a.role in ("x", "context")}
        if len(found) < 2 or any(a.name in self.overrides for a in self.arguments):
            return self.arguments
        lines = re.findall(r"^\s*(q|k|v)\w* *= *(.*)$", self.code, re.MULTILINE | re.IGNORECASE)

        def made(letters: str, role: str) -> bool:
            return any(re.search(rf"\b{found[role]}\b", text) for letter, text in lines if letter.lower() in letters)

        if made("q", "x") or made("kv", "context") or not (made("q", "context") and made("kv", "x")):
            return self.arguments
        trade = {"x": "context", "context": "x"}
        return [replace(a, role=trade.get(a.role or "", a.role)) for a in self.arguments]

    def _unpacked(self, argument: Argument) -> Argument:
        """An argument that the code takes apart, ``q, k, v = inputs`` or ``q = inputs[0]``, with the roles of its parts."""
        if argument.role in ("q", "k", "v", "qkv", "cache") or argument.name in self.overrides:
            return argument
        names: dict[int, str] = {}
        for node in _statements(self.description["body"]):
            if not isinstance(node, ast.Assign):
                continue
            target = node.targets[0]
            if isinstance(target, ast.Tuple) and _is_name(node.value, argument.name):
                names |= {n: t.id for n, t in enumerate(target.elts) if isinstance(t, ast.Name)}
            for part in ast.walk(node.value):
                if (
                    isinstance(target, ast.Name)
                    and isinstance(part, ast.Subscript)
                    and _is_name(part.value, argument.name)
                    and isinstance(part.slice, ast.Constant)
                    and isinstance(part.slice.value, int)
                ):
                    names.setdefault(part.slice.value, target.id)
        parts = tuple(role(names[n]) or "" for n in sorted(names))
        if sorted(names) != list(range(len(names))) or len(set(parts)) < 2 or "" in parts:
            return argument
        known = all(re.match(r"[Wb](q|k|v|o)", p) for p in parts) or (
            {"q", "k", "v", "x", "context"} & set(parts) and argument.role in ("x", "context", "params", "kv", None)
        )
        return replace(argument, role="parts", parts=parts) if known else argument

    def has(self, *roles: str) -> bool:
        return all(r in self.by_role for r in roles)

    @cached_property
    def text(self) -> str:
        """Source and documentation."""
        return self.description["source"] + "\n" + self.description["doc"]

    @cached_property
    def prose(self) -> str:
        """Documentation and comments alone, in lower case."""
        return self.described.lower()

    @cached_property
    def described(self) -> str:
        """Documentation and comments alone."""
        source = self.description["source"]
        comments = re.findall(r"#(.*)", source)
        quoted = re.findall(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', source, re.DOTALL)
        return "\n".join([self.description["doc"], *comments, *(a or b for a, b in quoted)])

    @cached_property
    def code(self) -> str:
        """Source without comments and documentation."""
        source = re.sub(r'"""(.*?)"""|\'\'\'(.*?)\'\'\'', "", self.description["source"], flags=re.DOTALL)
        return re.sub(r"#.*", "", source)

    @cached_property
    def told_layouts(self) -> list[str]:
        """Layouts that documentation and comments name, which is what was meant."""
        return self._layouts_in(self.described)

    @cached_property
    def layouts(self) -> list[str]:
        """Layouts that comments, unpacked shapes, annotations and einsum letters name, most telling first."""
        found = list(self.told_layouts)
        text = self.text + " " + " ".join(a.annotation for a in self.arguments)
        found += [layout for layout in self._layouts_in(text) if layout not in found]
        for letters in re.findall(r"einsum\(\s*[\"']([a-zA-Z]+)", self.code):
            if len(letters) in (3, 4):
                layout = _layout(",".join(letters))
                found += [layout] if layout and layout not in found else []
        return found

    def _layouts_in(self, text: str) -> list[str]:
        found: list[str] = []
        patterns = [
            r"([\w*, ]+?)\s*=\s*(?:q|k|v|x|query|queries|key|value|inputs?|hidden_states|Q|K|V|X)\w*\.(?:shape|size\(\))(?!\[)",
            r"[\(\[]\s*((?:[\w*]+\s*,\s*){1,4}[\w*]+)\s*[\)\]]",
            r"\b((?:\w+\s*[x×]\s*){1,3}\w+)\b",
            r"Float\w*\[\w*,\s*[\"']([\w ]+)[\"']",
        ]
        for pattern in patterns:
            for words in re.findall(pattern, text):
                layout = _layout(words)
                if layout and layout not in found:
                    found.append(layout)
        return found

    def declared_mask(self, wanted: str | None = None) -> str | None:
        """keep, drop or additive, where name or text say it of the mask, or of the padding mask."""
        found = [self.by_role[r] for r in ("mask", "padding") if r in self.by_role and wanted in (None, r)]
        if not found:
            return None
        name = found[0].name.lower()
        others = [a.name.lower() for a in self.arguments if a.role in ("mask", "padding") and a.name.lower() != name]
        lines = [
            line
            for line in re.split(r"\n\s*\n|\n|(?<=[.;])\s", self.prose)
            if "mask" in line or name in line or re.search(r"\b(true|1|0)\b", line)
        ]
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
        for part in ([own], lines):
            said = {verdict for line in part if (verdict := self._mask_in(line))}
            if said:
                # Who says both leaves it open.
                return said.pop() if len(said) == 1 else None
        if re.search(r"keep|allow|visible|valid|attend", name):
            return "keep"
        if re.search(r"additive|bias|float", name):
            return "additive"
        if re.search(r"drop|block|is_pad|ignore", name):
            return "drop"
        if re.search(r"\badditive mask\b", self.prose) and "bool" not in self.prose:
            return "additive"
        return None

    def _paragraph(self, name: str) -> str:
        """What the documentation of an argument says, in one line."""
        found = re.search(
            rf"^([ \t]*){re.escape(name)}\b[^\n:]{{0,30}}:(.*?)(?=\n\1?[ \t]{{0,4}}[\w, ]+(\([^)]*\))?:|\n\s*\n|\Z)",
            self.prose, re.DOTALL | re.MULTILINE,
        )  # fmt: skip
        return " ".join(found.group(2).split()) if found else ""

    def _mask_in(self, line: str) -> str | None:
        """keep, drop or additive, where a line says it."""
        if not re.search(r"\bbool", self.prose) and re.search(
            r"additive|\badded to\b|0\s*/\s*-\s*(inf|1e|float|∞)|-\s*inf\w*\s+(where|for|at|means|on|=)|−∞|zeros? .*-\s*inf",
            line,
        ):
            return "additive"
        yes = re.search(
            r"(?<![\w.])(true|1s?|ones|nonzero|one)(?![\w.])[^.;,0]{0,12}?(=|:|means?|marks?|indicates?|is|are|where|for|at|on|to|keeps?|drops?|may|hides?|blocks?|allows?|,|->|→|-)",
            line,
        )
        if yes:
            rest = line[yes.start() :][:70]
            rest = re.split(r"\bfalse\b|\b0s?\b|\bzero", rest)[0]
            if re.search(
                r"(not|never|don't|cannot|n't) |mask(ed|s)? ?(out)?|ignore|pad(ding|ded)?\b|drop|hid(e|den)|block|forbid|exclude|disallow|invisible",
                rest,
            ) and not re.search(
                r"not (masked|padded|padding|ignored|hidden)|real|non-pad|unmasked|may (attend|look|be seen)|keep|kept",
                rest,
            ):
                return "drop"
            if re.search(
                r"keep|kept|attend|attention|allow|valid|visible|real|see|use|may|participat|look|not (masked|padding|padded|ignored)|non-pad|unmasked|can\b|token|present",
                rest,
            ):
                return "keep"
        no = re.search(
            r"(?<![\w.])(false|0s?|zeros?)(?![\w.])\s*(=|:|means?|marks?|is|are|where|for|at|on|,|->|→|-|positions?|entries)+",
            line,
        )
        if (
            no
            and re.search(r"mask|ignore|pad|drop|hid|block|not", line[no.start() :][:50])
            and not re.search(r"not (masked|ignored|padded)", line[no.start() :][:50])
        ):
            return "keep"
        if no and re.search(r"keep|attend|allow|visible|valid", line[no.start() :][:50]):
            return "drop"
        return None

    @cached_property
    def boolean_mask(self) -> bool:
        """Whether name, annotation or text say that the mask is one of booleans or of 0 and 1."""
        argument = self.by_role.get("mask") or self.by_role.get("padding")
        if argument is None:
            return False
        near = " ".join(line for line in self.prose.splitlines() if "mask" in line or argument.name.lower() in line)
        words = r"\bbool|\btrue\b|\b0\s*/\s*1\b|\b1\s*/\s*0\b|binary|\b1 for\b|\b1 =|\bones? where\b|\b1s\b|\b1 where|\bkeep\b"
        turned = rf"{argument.name}\s*\.\s*(float|double|to|astype|type)\s*\(|float\(\s*{argument.name}"
        return bool("bool" in argument.annotation.lower() or re.search(words, near) or re.search(turned, self.code))

    @cached_property
    def declared_causal(self) -> bool:
        """Whether the name or the text promise a causal mask, and no argument asks for it."""
        if self.has("causal") or any(role(row["name"]) == "causal" for row in self.description["constructor"]):
            return False
        told = re.sub(r"(non|not|without|no|isn't|un)[ -]?(a |any )?(causal|masked)", "", self.prose)
        if self.has("mask"):
            # What is said of the argument promises nothing of the function.
            mask = re.escape(self.by_role["mask"].name.lower())
            told = re.sub(rf"(?m)^.*\b{mask}\b.*(\n[ \t]+.*)?$", "", told)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", self.name).lower()
        return bool(
            re.search(r"causal|autoregress|decoder_self|gpt|lookahead", name)
            or (not self.has("mask") and re.search(r"masked_self|masked_multi|masked_att", name))
            or re.search(
                r"\bcausal(ly)?\b|autoregressive|look-?ahead|future (tokens|positions|keys)|masked self|(only|itself) .{0,20}\b(past|earlier|previous)",
                told,
            )
        )

    @cached_property
    def told_packing(self) -> str | None:
        """How a packed projection is said to lie: "heads first" for a q, k and v of each head, or the order of letters."""
        one = r"(?:the )?(q|k|v)(?:uer(?:y|ies)|eys?|alues?)?s?\b(?: for all heads| of all heads)?"
        between = r"[^\w\n]{1,4}(?:then |and )?(?:all (?:of )?)?"
        if re.search(
            r"heads?\W{1,4}3\W{1,4}(d\b|h?d\b|head|d_)|(per|each|every) head.{0,20}\bq\b.{0,12}\bk\b|\bq\b.{0,30}of head 0",
            self.prose,
        ):
            return "heads first"
        named = re.search(r"\b(kqv|kvq|vkq|vqk|qvk)(_proj)?\b", self.code)
        if named:
            return named.group(1)
        for words in re.findall(rf"\b{one}{between}{one}{between}{one}", self.prose):
            near = re.search(r"order|column|row|pack|fused|stack|concat|\|", self.prose)
            if len(set(words)) == 3 and near:
                return "".join(words)
        return None

    @cached_property
    def counts_itself(self) -> tuple[bool, bool]:
        """Whether a window is said to count the query, and whether it is said not to."""
        if re.search(r"itself and .{0,16}- ?1\b|- ?1\W{0,4}(tokens?|positions?|keys?) before", self.prose):
            return True, False
        return (
            bool(
                re.search(
                    r"includ|counting (it|the query)|with itself|itself counts|counts itself|itself (is|being) (one|among|part)",
                    self.prose,
                )
            ),
            bool(
                re.search(
                    r"besides|exclud|not count|in addition to|plus itself|plus the query|without itself|before it\b",
                    self.prose,
                )
            ),
        )

    @cached_property
    def merges_pieces(self) -> bool:
        """Whether results over pieces of the keys are merged, in base 2 somewhere."""
        code = self.code + self.description["helpers"]
        return bool(re.search(r"log2|exp2", code) and re.search(r"split|chunk|block|lse|piece|part", code))

    @cached_property
    def rotates(self) -> bool:
        """Whether queries and keys seem to be rotated: it is said, or complex numbers are turned by angles."""
        words = r"rope|rotary|rotate|view_as_complex|torch\.polar"
        return bool(re.search(words, self.text + self.description["helpers"], re.IGNORECASE))

    @cached_property
    def told_heads(self) -> int | None:
        """How many heads the text of a function sets."""
        found = re.search(r"\b(?:n_?heads?|num_?heads|heads|nh|H|h)\s*=\s*(\d+)\b", self.text)
        return int(found.group(1)) if found and int(found.group(1)) > 0 else None

    @cached_property
    def declared_grouped(self) -> bool:
        """Whether it is said that consecutive query heads share a key head."""
        return bool(
            re.search(r"consecutive|//\s*\(?\s*(\w+\s*//|n_?rep|r\b|group)|repeat_interleave|as in llama", self.prose)
        )

    @cached_property
    def declared_unscaled(self) -> bool:
        """Whether the scale is said to be somebody else's business."""
        text = self.name.lower() + " " + self.prose
        return bool(
            re.search(
                r"pre-?scaled|already scaled|unscaled|luong|scaled? (is )?(outside|by the caller|beforehand)|without (the )?scal|no scal|not scaled|t5",
                text,
            )
        )


def _roles(arguments: list[Argument]) -> list[Argument]:
    """Settle what single letters mean from what stands beside them."""
    roles = [a.role for a in arguments]
    fixed = list(arguments)
    inputs = [r for r in roles if r in _INPUTS]

    def change(number: int, to: str | None) -> None:
        fixed[number] = Argument(**{**vars(fixed[number]), "role": to})

    for number, argument in enumerate(arguments):
        name = argument.name.lower()
        seen = [a.role for a in fixed[:number]]
        if argument.role in seen and argument.role in _INPUTS:
            other = "context" if argument.role == "x" and "context" not in seen else None
            change(number, other)
        if argument.role == "k" and "rng" in argument.annotation.lower():
            change(number, "seed")
        if name == "h" and number > 0 and {"x", "q"} & set(inputs):
            alone = "q" in inputs and not {"k", "context", "x"} & {
                r for r, a in zip(roles, arguments, strict=True) if len(a.name) > 1
            }
            change(number, "context" if alone else "heads")
        if name in ("key", "rng") and argument.role == "k" and "q" not in roles and "v" not in roles:
            change(number, "seed")
        if argument.role == "v" and "x" in roles and not {"q", "k"} & set(roles):
            before = [n for n, r in enumerate(roles[:number]) if r == "x"]
            if len(before) == 2:
                # (latents, inputs, values): what asks, what is asked, and what it has to say.
                change(before[0], "q")
                change(before[1], "k")
            else:
                change(number, None)
    masks = [n for n, a in enumerate(fixed) if a.role == "mask"]
    if len(masks) == 2 and not any(a.role == "padding" for a in fixed):
        change(masks[1], "padding")
    roles = [a.role for a in fixed]
    if {"k", "context"} & set(roles) and not {"q", "x"} & set(roles):
        # The only argument that nobody understands, or that is but a letter, is what asks.
        vague = (None, "model_dim", "att_dim", "length", "key_length")
        lone = [n for n, a in enumerate(fixed) if a.required and a.role in vague[: 5 if len(a.name) == 1 else 1]]
        if len(lone) == 1:
            change(lone[0], "q")
            roles[lone[0]] = "q"
    # (x, key, value) and (hidden, encoder_outputs): the first is the query.
    if "q" not in roles and "x" in roles and ({"k", "v"} & set(roles)):
        change(roles.index("x"), "q")
    if "q" in roles and "x" in roles and "k" not in roles and "context" not in roles:
        change(roles.index("x"), "context")
    return fixed


def _statements(source: str) -> Iterator[ast.AST]:
    with suppress(SyntaxError):
        yield from ast.walk(ast.parse(source))


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _layout(words: str) -> str | None:
    """A layout such as BHTD from the words of a shape."""
    parts = [part.strip(" ()[]").lower() for part in re.split(r"[,x×]|\s+(?=\w)", words) if part.strip(" ()[]")]
    parts = [p for p in parts if p]
    if not 2 <= len(parts) <= 4:
        return None
    found = ""
    for number, part in enumerate(parts):
        axis = next((letter for letter, pattern in _AXES.items() if re.fullmatch(pattern, part)), None)
        if axis is None and part in ("_", "1", "...", "…") and number == 0:
            axis = "B"
        if axis == "T" and part == "n" and number == 0 and len(parts) > 2:
            axis = "B"
        if axis is None:
            return None
        found += axis
    if len(set(found)) < len(found):
        return None
    return found if found in ("TD", "BTD", "TBD", "HTD", "THD", "BHTD", "BTHD", "TBHD", "DT") else None


def thrown_away(code: str) -> bool:
    """Whether a call that masks returns what nobody takes, such as ``scores.masked_fill(mask, x)``."""
    return any(re.search(r"masked_fill$|where$|\.at\[.*\.(set|add|min)$", name) for name in _lost(code))


def _lost(code: str) -> list[str]:
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    return [
        ast.unparse(node.value.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]


_LETTERS = {
    "q": "q", "query": "q", "queries": "q", "qs": "q",
    "k": "k", "key": "k", "keys": "k", "ks": "k",
    "v": "v", "value": "v", "values": "v", "vs": "v", "val": "v",
    "o": "o", "out": "o", "output": "o", "final": "o", "unify": "o", "c_proj": "o", "concat": "o", "unifyheads": "o", "combine": "o", "merge": "o", "wo": "o", "outputs": "o",
    "qkv": "qkv", "in_proj": "qkv", "in": "qkv", "c_attn": "qkv", "kqv": "qkv", "c": "qkv", "kv": "kv", "query_key_value": "qkv", "attn_in": "qkv", "packed": "qkv",
}  # fmt: skip


def letter(path: str, owner: str) -> str | None:
    """q, k, v, o, qkv, kv, norm or None, from the path of a parameter."""
    lowered = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", path).lower()
    if "norm" in owner.lower() or re.search(r"(^|[._])(ln|norm|layer_?norm)\d*([._]|$)", lowered):
        return "norm"
    if re.search(r"qkv|kqv|in_proj|c_attn|attn?_in([._]|$)|query_key_value", lowered):
        return "qkv"
    if re.search(r"(^|[._])(to_|w_?)?kv([._]|$)|kv_proj|key_value", lowered):
        return "kv"
    if re.search(r"out_proj|c_proj|o_proj|unify|fc_o|(^|[._])w_?o([._]|$)|to_out", lowered):
        return "o"
    parts = [p for p in re.split(r"[._]", lowered) if p and not p.isdigit()]
    for part in reversed(parts):
        bare = re.sub(r"\d+$", "", part)
        bare = re.sub(r"^(w|to|lin|fc|b)(?=(q|k|v|o|query|key|value|queries|keys|values|out|output)s?$)", "", bare)
        if bare in _LETTERS and bare not in ("in", "c"):
            return _LETTERS[bare]
    return None
