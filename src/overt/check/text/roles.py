"""What names say: the roles of arguments, and which projection a parameter is."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

# The first that matches the whole normalised name is the role.
_ROLES: tuple[tuple[str, str], ...] = (
    ("q", r"x_?q|q_?x|inputs?_?q|q_?in|xq|q|query|queries|qs|xq|query_?vec(tor)?s?|query_?states?|q_?heads|target_?hidden|dec(oder)?_?(states?|hidden|h|outputs?|query)|s_?prev|prev_?state|hidden_?dec|s_?i|ht|h_?t|current(_?token)?|cur|consultas?|requ[eê]tes?|abfragen?|anfragen?|sorgu"),
    ("k", r"(memory|mem|enc|encoder|src|source|bank)_?(k|keys?)|claves?|llaves?|cl[eé]s?|schluessel|schlüssel|chaves?|anahtar|x_?k|inputs?_?k|k_?x|k_?in|k|keys?|ks|xk|key_?vec(tor)?s?|key_?states?|k_?heads"),
    ("v", r"(memory|mem|enc|encoder|src|source|bank)_?(v|values?|vals?)|valor(es)?|valeurs?|werte?|deger|x_?v|inputs?_?v|v_?x|v_?in|v|values?|vs|xv|val|vals|value_?vec(tor)?s?|value_?states?|v_?heads"),
    ("qkv", r"qkv|packed|packed_?qkv|qkv_?packed|mixed_?qkv"),
    ("kv", r"kv|packed_?kv"),
    ("context", r"context|memory|mem|enc(oder)?_?(out|outs|outputs?|states?|hidden|hiddens|hidden_?states?|h|hs|seq)|source|annotations|hs|y|xa|cross|ctx|encoded|(inputs?|x)_?kv|kv_?(in|inputs?|states|seq|source|x)"),
    ("x", r"(dec(oder)?|enc(oder)?|src|tgt|trg|source|target)_?(x|inputs?|emb(s|eddings?)?|tokens?|stream|vectors?)|x_?(dec|enc|decoder|encoder|src|tgt|source|target)|x|xs|inputs?|hidden_?states?|hidden|h|src|tgt|trg|tokens|emb|embs|embeddings?|embedded|seqs?|sequences?|inp|input_?tensor|features?|data|words|(token_?|input_?|src_?|tgt_?|trg_?)?ids|z|tensor|arr|array|states|t|u|a|i|(word_?)?(vectors?|vecs?)|latents?|frames?|patches|images?|prompt|token_?(vectors?|embeddings?)"),
    ("scores", r"scores?|logits|s|att_?scores|similarit(y|ies)|energy|energies"),
    ("causal", r"(is_?|use_?)?causal(_?mask)?|autoregressive|masked|look_?ahead|use_?causal_?mask|decoder_?mask|unidirectional"),
    ("query_mask", r"(q|query|queries)_?(pad(ding)?_?)?mask"),
    ("padding", r"v(alue)?_?mask|(src_|tgt_)?key_padding_mask|padding_?mask|pad_?mask|key_?mask|padding|kv_?mask|key_?valid|valid|input_?mask|valid_?mask|src_?mask|is_?pad|pads?|src_?key_?padding|keys?_?keep|\w*pad(ding)?_?masks?|(encoder|memory|source|context)\w*_?masks?"),
    ("mask", r"m[aá]scaras?|masques?|masken?|maschera|maska|(attn|attention|att|self_attn|keep|visible|allowed|additive|float|bool|m|drop)_?mask|mask|masks|m|keep|allowed|visible|blocked|mask_?bias|adj(acency)?(_?(matrix|mat))?|(?!\w*heads?_?mask)\w*_?masks?"),
    ("query_lengths", r"(q|query|tgt|target)_?(seq_?)?(lens|lengths)"),
    ("lengths", r"lengths?|valid_?lens?|valid_?lengths?|seq_?lens|seq_?lengths|lens|(key|kv|k|src|source|enc|input|memory)_?(lengths?|lens?)|(?!cu_)\w+_?(lens|lengths)"),
    ("scale", r"scale|scaling|softmax_?scale|sm_?scale|scale_?factor"),
    ("cap", r"(attn|attention)_?logits?_?(soft_?)?cap(ping)?|soft_?cap|logits?_?(soft_?)?cap|cap|attn_?(logit_?)?softcap(ping)?|score_?cap|logits?_?softcap(ping)?|attn_?softcap"),
    ("window", r"window|window_?size|sliding_?window|local_?window|w|attention_?window|local_?window_?size|band|left_?window"),
    ("slopes", r"(alibi_?)?slopes?"),
    ("bias", r"bias|attn_?bias|att_?bias|attention_?bias|position_?bias|rel_?bias|pos_?bias|score_?bias|additive_?bias"),
    ("heads", r"(n|num|nb|number_of|n_query|num_query|n_q|num_q|num_attention|attention|q|query)_?heads?|heads?|nhead|nheads|n_?h|num_?attention_?heads|n_?head|h"),
    ("groups", r"(n|num|nb)_?(kv|key_?value|k|key)_?heads?|kv_?heads?|n_?kv|num_?kv|num_?key_?value_?heads|n_?groups|num_?groups|groups|g"),
    ("repeats", r"n_?rep|repeats?|num_?rep|reps?|n_?repeats?|num_?groups_per|r|group_?size|num_key_value_groups|times"),
    ("head_dim", r"(head|d|dim|per)_?(head|dim|k|key|v|value|q)s?|d_?kv|d_?qk|head_?(dim|size|width)|dim_?head|d_?head|d_?k|d_?v|dk|dv|d_?q|key_?dim|value_?dim|size_per_head|(rotary|rope|rot)_?n?dims?|kdim_?head|hs|hd|depth"),
    ("model_dim", r"(d|dim|embed|emb|embedding|hidden|model|n|in|out|input|output|feature|query|key|value|enc|dec|encoder|decoder)_?(model|dim|dims?|size|embd|emb|embed|hidden|hid|features?|in|out|width|channels)|dim|d|embed_?size|dmodel|hidden|units|width|n_?embd|n_?state|channels|c|features|e|k|k_?dim|v_?dim|enc_?hid_?dim|dec_?hid_?dim"),
    ("att_dim", r"(att|attn|attention|align|alignment)_?(dim|size|units|hidden)|num_?hiddens|a"),
    ("length", r"(max|block|context|ctx|seq|sequence|target|src|tgt|n|num|query|q|total)_?(len|length|size|window|seq_?len(gth)?|pos|positions?|position_?embeddings|ctx|steps|timesteps|tokens)|max_?len|max_?length|t|l|n|length|size|seq|n_?ctx|max_sequence_length|max_?position"),
    ("key_length", r"(key|kv|k|src|source|memory|total|s)_?(len|length|seq_?len)|s|total_?len|lk|tk|s_?len"),
    ("vocab", r"(n_?|src_|tgt_)?vocab(_?size)?|num_?embeddings|ntoken|n_?tokens|vocab_?len"),
    ("drop", r"dropout|drop|dropout_?(p|rate|prob)|attn_?(dropout|drop|pdrop)|p|rate|drop_?(prob|rate)|p_?drop|attention_?dropout|(attn|resid|proj)_?(p)?drop(out)?|pdrop|\w*_p?drop(out)?(_?(p|rate|prob|ratio))?|dropout_?ratio"),
    ("temperature", r"temperature|temp|tau"),
    ("training", r"training|train|is_?training"),
    ("deterministic", r"deterministic|inference"),
    ("offset", r"offset|start_?pos|pos_?offset|position_?offset|start|cache_?position|past_?len(gth)?|pos_?start|seq_?offset|cache_?len"),
    ("positions", r"positions?|pos|position_?ids|pos_?ids|p|idx|m|t|index"),
    ("cache", r"cache|kv_?cache|past|layer_?past|past_?key_?values?|past_?kv|state|layer_?cache|prev_?kv"),
    ("use_cache", r"use_?cache"),
    ("layers", r"(n|num|num_?hidden|number_of|(enc|dec)(oder)?)_?(layers?|blocks?|hops|stages)|depth|layers|hops"),
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
    ("Wqkv", r"w_?qkv|w_?pack|(qkv|query_key_value)_?(w|weight|proj|kernel)|in_?proj|in_weight|c_?attn|w_?in|wqkv|qkv_?matrix"),
    ("bqkv", r"b_?qkv|(qkv|query_key_value)_?(b|bias)|in_?(proj_?)?bias"),
    ("Wq", r"[wp]_?q|w_?query|wquery|q_?(w|weight|proj|kernel|matrix|mat)|query_?(w|weight|proj|kernel|matrix)|wqs"),
    ("Wk", r"[wp]_?k|w_?key|wkey|k_?(w|weight|proj|kernel|matrix|mat)|key_?(w|weight|proj|kernel|matrix)"),
    ("Wv", r"[wp]_?v|w_?value|wvalue|v_?(w|weight|proj|kernel|matrix|mat)|value_?(w|weight|proj|kernel|matrix)"),
    ("Wo", r"[wp]_?o|w_?out|wout|o_?(w|weight|proj|kernel|matrix|mat)|out(put)?_?(w|weight|proj|kernel|projection)|w_?output|c_?proj"),
    ("bq", r"b_?q|q_?b(ias)?|query_?bias"),
    ("bk", r"b_?k|k_?b(ias)?|key_?bias"),
    ("bv", r"b_?v|v_?b(ias)?|value_?bias"),
    ("bo", r"b_?o|b_?out|o_?b(ias)?|out(put)?_?bias"),
)  # fmt: skip
# What somebody may say of an argument, of the order of axes, and of a mask.
ROLES = tuple(name for name, _ in (*_ROLES, *_WEIGHTS))
LAYOUTS = ("BHTD", "BTHD", "BTD", "TBD", "TD", "HTD", "THD")
MASKS = ("keep", "drop", "additive")
INPUTS = ("q", "k", "v", "x", "context", "qkv", "kv", "scores")


@dataclass(frozen=True)
class Argument:
    """One argument of the candidate."""

    name: str
    role: str | None
    required: bool
    default: Any
    annotation: str
    kind: str
    # whether several calls share it
    each: bool = False
    # whole numbers that its default holds, by their names
    held: Mapping[str, int] = field(default_factory=dict, compare=False)


@lru_cache(maxsize=4096)
def plain(name: str) -> str:
    """A name without case and decoration."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().strip("_")
    return (
        re.sub(r"_(proj(ected)?|layer|tensor|array|arr|matrix|mat|in|input|seq|s_?bhtd|bhtd|bthd|btd|th|np)$", "", name)
        or name
    )


@lru_cache(maxsize=4096)
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


@lru_cache(maxsize=4096)
def constructor_role(name: str) -> str | None:
    """The role that the name of an argument of a constructor suggests."""
    order = ("layers", "heads", "groups", "repeats", "vocab", "drop", "causal", "head_dim", "model_dim", "att_dim",
             "cap", "window", "length", "first", "config", "seed", "scale", "temperature",
             "base", "key_length", "Wq", "Wk", "Wv", "Wo", "x", "k", "q", "v")  # fmt: skip
    if name in ("h", "H", "nh"):
        return "heads"
    if name in ("kv", "hkv", "kvh", "h_kv"):
        return "groups"
    if re.fullmatch(r"(max_?)?(batch|bsz?)(_?size)?", name.lower()):
        return "samples"
    if name in ("d", "D", "k", "e", "c", "C", "E", "dim"):
        return "model_dim"
    found = next((r for r in order if role(name, (r,))), None)
    widths = r"dim|units?$|feats?$|features|width|channels|hid|emb|_size$"
    return found or ("model_dim" if re.search(widths, name.lower()) else None)


def keeping(names: Sequence[str]) -> bool:
    """Whether arguments are a name, and the keys and values that are kept by it."""
    return len(names) == 3 and [role(name, ("k", "v")) for name in names] == [None, "k", "v"]


def settled(arguments: list[Argument]) -> list[Argument]:
    """Settle what single letters mean from what stands beside them."""
    roles = [a.role for a in arguments]
    fixed = list(arguments)
    inputs = [r for r in roles if r in INPUTS]

    def change(number: int, to: str | None) -> None:
        fixed[number] = Argument(**{**vars(fixed[number]), "role": to})

    for number, argument in enumerate(arguments):
        name = argument.name.lower()
        seen = [a.role for a in fixed[:number]]
        if argument.role in seen and argument.role in INPUTS:
            other = "context" if argument.role == "x" and "context" not in roles else None
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
    letters = [n for n, a in enumerate(fixed) if len(a.name) == 1 and a.name.isalpha()]
    for small, large in ((m, n) for m in letters for n in letters):
        if fixed[small].name != fixed[large].name == fixed[small].name.upper() and not inputs:
            # (e, E): one token and all tokens.
            change(small, "q")
            change(large, "context")
    masks = [n for n, a in enumerate(fixed) if a.role == "mask"]
    if any(len(a.name) > 1 for a in fixed if a.role in ("mask", "padding")):
        # A letter beside what is called a mask is none.
        for number in (n for n in masks if len(fixed[n].name) == 1):
            change(number, None if "x" in roles[:number] else "x")
        masks = [n for n, a in enumerate(fixed) if a.role == "mask"]
    if len(masks) == 2 and not any(a.role == "padding" for a in fixed):
        change(masks[1], "padding")
    roles = [a.role for a in fixed]
    if {"k", "context"} & set(roles) and not {"q", "x"} & set(roles):
        # The only argument that nobody understands, or that is but a letter, is what asks.
        vague = (None, "model_dim", "att_dim", "length", "key_length")
        lone = [
            n
            for n, a in enumerate(fixed)
            if a.required and (a.role in vague[: 5 if len(a.name) == 1 else 1] or a.name == "state")
        ]
        # Of several, what is called a state.
        lone = [n for n in lone if fixed[n].name == "state"][:1] or lone
        if len(lone) == 1:
            change(lone[0], "q")
            roles[lone[0]] = "q"
    # (x, key, value) and (hidden, encoder_outputs): the first is the query.
    if "q" not in roles and "x" in roles and ({"k", "v"} & set(roles)):
        change(roles.index("x"), "q")
    if "q" in roles and "x" in roles and "k" not in roles and "context" not in roles:
        change(roles.index("x"), "context")
    return fixed
