"""Building a class, and telling which of its parameters projects what."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from overt.check.attention import Instance
from overt.check.interface import Interface
from overt.check.roles import letter, role
from overt.check.session import Here, Session
from overt.check.steps import Projections

WIDTH, HEADS = 12, 3


Made = tuple[dict[str, Any], dict[str, np.ndarray]]


def constructor(interface: Interface, width: int = WIDTH, count: int = HEADS, **wanted: Any) -> Made | str:
    """Arguments for a class by their roles and the arrays among them, or the name of the one nobody understands.

    width of all heads together, and their count.
    """
    values: dict[str, Any] = {
        "model_dim": width,
        "heads": count,
        "head_dim": width // count,
        "length": 32,
        "key_length": 32,
        "vocab": 11,
        "att_dim": 5,
        "drop": 0.0,
        "groups": count,
        "x": width,
        "k": width,
        "v": width,
        "q": width,
        "causal": False,
        "seed": 0,
        "scale": (width // count) ** -0.5,
        "temperature": (width // count) ** 0.5,
        "window": 3,
        "cap": 0.7,
        "repeats": 3,
        **wanted,
    }
    kwargs: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for a in interface.arguments:
        found = interface.overrides.get(a.name) or _constructor_role(a.name)
        if found == "config":
            if a.required:
                kwargs[a.name] = {"config": {n: {"value": value} for n, value in _config(values).items()}, "path": []}
            continue
        # A default width need be no multiple of the heads.
        given = found in ("heads", "drop", "model_dim") or found in wanted
        # Nor need the heads be a multiple of a default number of key heads.
        given = given or (found == "groups" and isinstance(a.default, int))
        if a.name in wanted:
            kwargs[a.name] = {"value": wanted[a.name]}
        elif a.required and found in ("Wq", "Wk", "Wv", "Wo"):
            arrays[a.name] = np.zeros((width, width))
            kwargs[a.name] = {"array": a.name}
        elif a.required and found not in values:
            word = _word(interface, a.name)
            if word is None:
                return a.name
            kwargs[a.name] = {"value": word}
        elif (a.required or given) and found in values:
            kwargs[a.name] = {"value": values[found]}
    return kwargs, arrays


def _word(interface: Interface, name: str) -> str | None:
    """The first of the words that the code compares an argument with."""
    same = rf"(?:self\.)?_?{re.escape(name)}\s*(?:==|in|not in)\s*[\[(]?\s*[\"'](\w+)[\"']"
    found = re.search(same, interface.code)
    return found.group(1) if found else None


def _constructor_role(name: str) -> str | None:
    """The role that the name of an argument of a constructor suggests."""
    order = ("heads", "groups", "repeats", "vocab", "drop", "causal", "head_dim", "model_dim", "att_dim",
             "cap", "window", "length", "first", "config", "seed", "scale", "temperature",
             "base", "key_length", "Wq", "Wk", "Wv", "Wo", "x", "k", "q", "v")  # fmt: skip
    if name in ("h", "H", "nh"):
        return "heads"
    if name in ("d", "D", "k", "e", "c", "C", "E", "dim"):
        return "model_dim"
    found = next((r for r in order if role(name, (r,))), None)
    widths = r"dim|units?$|feats?$|features|width|channels|hidden|emb|_size$"
    return found or ("model_dim" if re.search(widths, name.lower()) else None)


def _config(values: dict[str, Any]) -> dict[str, Any]:
    names = {
        "model_dim": ("n_embd", "d_model", "hidden_size", "embed_dim", "dim", "emb_dim", "n_embed", "model_dim",
                      "hidden_dim", "dmodel", "embedding_dim", "width"),
        "heads": ("n_head", "n_heads", "num_heads", "num_attention_heads", "nhead", "heads"),
        "groups": ("n_kv_head", "n_kv_heads", "num_kv_heads", "num_key_value_heads"),
        "head_dim": ("head_dim", "d_head", "d_k", "head_size"),
        "length": ("block_size", "max_len", "context_length", "max_seq_len", "seq_len",
                   "max_position_embeddings", "max_length", "n_positions", "n_ctx", "max_batch_size"),
        "vocab": ("vocab_size",),
        "drop": ("dropout", "attn_pdrop", "resid_pdrop", "attention_probs_dropout_prob", "attn_dropout",
                 "drop_rate", "attention_dropout", "hidden_dropout_prob", "dropout_rate", "dropout_p"),
    }  # fmt: skip
    made = {name: values[which] for which, group in names.items() for name in group}
    return {
        **made,
        "bias": True,
        "qkv_bias": True,
        "attention_bias": True,
        "rope_theta": 10000.0,
        "layer_norm_eps": 1e-5,
        "is_causal": values["causal"],
        "causal": values["causal"],
    }


def build(
    session: Session | Here, interface: Interface, seed: int | None = 1, evaluate: bool = True, **wanted: Any
) -> Instance | dict[str, Any] | str:
    """An instance with known parameters; the error of the constructor; or the argument that nobody understands.

    A constructor that rejects the width and the number of heads gets others.
    """
    errors = []
    for size in ((WIDTH, HEADS), *_OTHER):
        found = _build(session, interface, size, seed, evaluate, wanted)
        if not isinstance(found, dict) or {"model_dim", "heads", "head_dim"} & set(wanted):
            return found
        errors.append(found)
    return {**errors[0], "always": unconditional(errors)}


def unconditional(errors: Sequence[dict[str, Any]]) -> bool:
    """Whether all calls of whatever shapes fail alike, at one line: then it is not what they were called with.

    What a line of ``raise`` or ``assert`` of the candidate's own says of some shapes is its right.
    """
    alike = {(error["type"], error["message"], error["line"]) for error in errors}
    first = errors[0]
    # Of what a library raises, the arguments may be the cause; not of names that there are not.
    missing = (first.get("missing") or {}).get("owner") == "module"
    own = missing or first.get("raised") or first["type"] in ("NameError", "UnboundLocalError", "ModuleNotFoundError")
    return len(alike) == 1 and first["line"] is not None and bool(own) and not first.get("guarded")


# Widths and numbers of heads that code takes which wants powers of two, or so many to a head.
_OTHER = ((32, 4), (64, 4), (128, 8), (128, 1), (512, 8), (768, 12))


def _build(
    session: Session | Here,
    interface: Interface,
    size: tuple[int, int],
    seed: int | None,
    evaluate: bool,
    wanted: dict[str, Any],
) -> Instance | dict[str, Any] | str:
    made = constructor(interface, *size, **wanted)
    if isinstance(made, str):
        return made
    kwargs, given = made
    first, more = first_call(interface.description, size[0])
    reply, arrays = session.ask(
        {"op": "build", "kwargs": kwargs, "seed": seed, "evaluate": evaluate, "first": first}, given | more
    )
    if "error" in reply:
        return reply["error"]
    passed = {_constructor_role(name) for name in kwargs}
    numbers = {name: values for name, values in wanted.items() if name in ("heads", "groups")}
    if not passed & {"heads", "config"}:
        # The class has its own number.
        numbers.pop("heads", None)
    elif "heads" not in numbers:
        numbers["heads"] = size[1]
    if "groups" in passed and "groups" not in numbers:
        numbers["groups"] = size[1]
    return instance(reply["handle"], reply["parameters"], arrays, reply["numbers"], **numbers, whole=size[0])


def first_call(description: dict[str, Any], width: int = WIDTH) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Arguments of a call that makes a layer of Keras make its weights."""
    array = {"array": "first"}
    inputs = ("q", "k", "v", "x", "context", "kv")
    arguments = Interface(description, description["parameters"], {}).arguments
    named: dict[str, Any] = {a.name: array for a in arguments if a.required and a.role in inputs}
    named |= {a.name: {"list": [array for part in a.parts if part in inputs]} for a in arguments if a.parts}
    return named, {"first": np.zeros((2, 5, width))}


def instance(
    handle: int | None,
    rows: list[dict[str, Any]],
    arrays: dict[str, np.ndarray],
    attributes: dict[str, float],
    heads: int | None = None,
    groups: int | None = None,
    whole: int = WIDTH,
) -> Instance:
    """Parameters by role; numbers of heads and the like from the attributes where they are not given.

    whole: the width that it was built for, of all heads together.
    """
    count = heads or _count(attributes, "heads") or _indexed(rows) or 1
    norms = _inner_norms(rows, arrays)
    rows_left = [row for row in rows if not _INNER.search(row["path"].lower())]
    weight, bias, turnable, packed, norm = _projections(rows_left, arrays, count)
    groups = groups or _count(attributes, "groups")
    shared = count > 1 and all(part in weight and weight[part].shape[0] * count == whole for part in "qkv")
    if count > 1 and all(part in weight and weight[part].shape == (whole, whole // count) for part in "qkv"):
        # One head, used several times.
        weight |= {part: np.tile(weight[part], (1, count)) for part in "qkv"}
        bias |= {part: np.tile(bias[part], count) for part in "qkv" if part in bias}
        return Instance(handle, rows, arrays, count, count, whole, Projections(weight, bias), norm, turnable, True)
    if shared:
        # Small matrices, one for all heads or one each, are the blocks of a large one.
        for part in "qkv":
            small, d = weight[part], whole // count
            if small.shape[1] == whole:
                shared = False
                weight[part] = np.kron(np.eye(count), np.ones((d, d))) * np.tile(small, (count, 1))
                continue
            weight[part] = np.kron(np.eye(count), small)
            if part in bias:
                bias[part] = np.tile(bias[part], count)
    one = weight.get("q")
    shared = shared or (one is not None and one is weight.get("k") and one is weight.get("v"))
    paired = any(letter(row["path"], row["owner"]) == "kv" for row in rows)
    projections = Projections(weight, bias, packed, paired, norms) if weight else None
    first = next((weight[part] for part in "qkvo" if part in weight), None)
    width = whole if first is None else first.shape[0]
    G = groups if groups and count % groups == 0 else count
    if {"q", "k"} <= set(weight):
        # Fewer key heads are seen in the width, whatever their number is called.
        each, kept = weight["q"].shape[1] // count, weight["k"].shape[1]
        G = kept // each if each and kept < weight["q"].shape[1] and kept % each == 0 else G
    window, cap = _number(attributes, "window"), _number(attributes, "cap")
    return Instance(
        handle, rows, arrays, count, G, width, projections, norm, turnable, shared,
        window=int(window) if window and window < 1000 else None, cap=cap if cap and cap > 0 else None,
    )  # fmt: skip


# Norms of queries and keys inside.
_INNER = re.compile(r"(?:^|[._])(?:(q|k)\w*?_?(?:layer_?)?(?:norm|ln)|(?:norm|ln)_?(q|k)(?:uery|ey)?)(?:[._]|$)")


def _inner_norms(
    rows: list[dict[str, Any]], arrays: dict[str, np.ndarray]
) -> dict[str, tuple[np.ndarray, np.ndarray | float, float, bool]]:
    """Weight, bias, eps and kind of the norms of q and k."""
    found: dict[str, tuple[np.ndarray, np.ndarray | float, float, bool]] = {}
    for row in rows:
        told = _INNER.search(row["path"].lower())
        if told and not row["path"].endswith(("bias", "beta")):
            bias = arrays.get(re.sub(r"(weight|gamma)$", "bias", row["path"]))
            shift = 0.0 if bias is None or bias is arrays[row["path"]] else bias
            found[told.group(1) or told.group(2)] = (arrays[row["path"]], shift, row["eps"], "RMS" not in row["owner"])
    return found


def _number(attributes: dict[str, float], wanted: str) -> float | None:
    order = ("heads", "groups", "window", "cap")
    return next((n for name, n in attributes.items() if role(name, order) == wanted and n > 0), None)


def _count(attributes: dict[str, float], wanted: str) -> int | None:
    found = _number(attributes, wanted)
    return int(found) if found and found == int(found) else None


def _index(path: str) -> int | None:
    numbers = re.findall(r"(?:^|\.)(\d+)(?:\.|$)", path)
    return int(numbers[-1]) if numbers else None


def _indexed(rows: list[dict[str, Any]]) -> int | None:
    """How many heads, where each has parameters of its own."""
    found = {_index(row["path"]) for row in rows if letter(row["path"], row["owner"]) in ("q", "query")} - {None}
    return len(found) if len(found) > 1 else None


def _projections(
    rows: list[dict[str, Any]], arrays: dict[str, np.ndarray], heads: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], bool, bool, tuple[np.ndarray, np.ndarray, float] | None]:
    weights: dict[str, list[np.ndarray]] = defaultdict(list)
    biases: dict[str, list[np.ndarray]] = defaultdict(list)
    scale = shift = None
    eps, turnable = 1e-5, False
    named = [(letter(row["path"], row["owner"]), row) for row in rows]
    if not any(which in ("q", "k", "v", "qkv", "kv") for which, _ in named):
        named = _by_order(named)
    for which, row in named:
        array, path = arrays[row["path"]], row["path"]
        if which == "norm":
            eps = row["eps"] or eps
            if array.ndim == 1 and scale is None and not path.endswith(("bias", "beta", "b")):
                scale = array
            else:
                shift = array
        elif which is None:
            continue
        elif array.ndim == 1 or (re.search(r"bias$", path) and array.ndim <= 2):
            biases[which].append(array.reshape(-1))
        elif array.ndim > 1 and row["owner"].startswith("Conv") and set(array.shape[2:]) <= {1}:
            # A convolution of one point is a matrix.
            weights[which].append(array.reshape(array.shape[:2]).T)
        elif array.ndim in (2, 3):
            linear = row["owner"] in (
                "Linear",
                "NonDynamicallyQuantizableLinear",
                "LazyLinear",
                "MultiheadAttention",
            ) or path.endswith(("in_proj_weight",))
            if array.ndim == 3:
                array = _two_axes(array, which == "o", heads, row["owner"] in ("EinsumDense", "DenseGeneral"))
            elif linear:
                array = array.T
            else:
                turnable = True
            weights[which].append(array)
    lone = [row for which, row in named if which is None and len(row["shape"]) == 2]
    if "o" not in weights and len(lone) == 1:
        # The only matrix without a telling name comes last.
        path = lone[0]["path"]
        linear = lone[0]["owner"] == "Linear"
        weights["o"].append(arrays[path].T if linear else arrays[path])
        bias_path = re.sub(r"(weight|kernel)$", "bias", path)
        if bias_path != path and bias_path in arrays:
            biases["o"].append(arrays[bias_path])
    weight = {
        which: np.concatenate(parts, axis=-1) for which, parts in weights.items() if len({len(p) for p in parts}) == 1
    }
    bias = {which: np.concatenate(parts) for which, parts in biases.items()}
    if "all" in weight:
        weight |= dict.fromkeys("qkv", weight.pop("all"))
        bias |= dict.fromkeys("qkv", bias.pop("all")) if "all" in bias else {}
    if "same" in weight:
        weight |= dict.fromkeys("qkvo", weight.pop("same"))
        bias |= dict.fromkeys("qkvo", bias.pop("same")) if "same" in bias else {}
    packed = "qkv" in weight
    for both, letters in (("qkv", "qkv"), ("kv", "kv")):
        if both in weight:
            whole = weight.pop(both)
            if turnable and whole.shape[0] > whole.shape[1]:
                whole = whole.T
            weight |= (
                dict(zip(letters, np.split(whole, len(letters), axis=-1), strict=True))
                if whole.shape[1] % len(letters) == 0
                else {}
            )
        if both in bias:
            whole = bias.pop(both)
            bias |= (
                dict(zip(letters, np.split(whole, len(letters)), strict=True))
                if whole.shape[0] % len(letters) == 0
                else {}
            )
    norm = (scale, shift if shift is not None else np.zeros_like(scale), eps) if scale is not None else None
    return weight, bias, turnable, packed, norm


def _two_axes(array: np.ndarray, output: bool, heads: int, told: bool) -> np.ndarray:
    """(in, H · d) from an array with an axis of heads; of an output (H · d, out)."""
    H = next((axis for axis in (0, 1, 2) if array.shape[axis] == heads), None)
    if H is None or told or len(set(array.shape)) < 3:
        # The axes cannot be told apart: (H, in, d) a head each, or (in, H, d) of einsum layers with (H, d, out).
        if not output and not told and array.shape[0] < array.shape[1]:
            return np.concatenate(list(array), axis=-1)
        return array.reshape(-1, array.shape[-1]) if output else array.reshape(len(array), -1)
    width, d = sorted((axis for axis in (0, 1, 2) if axis != H), key=lambda axis: -array.shape[axis])
    array = array.transpose((H, d, width) if output else (width, H, d))
    return array.reshape(-1, array.shape[-1]) if output else array.reshape(len(array), -1)


def _by_order(named: list[tuple[str | None, dict[str, Any]]]) -> list[tuple[str | None, dict[str, Any]]]:
    """Three or four matrices without telling names are q, k, v and output, in their order; one is used for all."""
    matrices = [row for which, row in named if which in (None, "o") and len(row["shape"]) == 2]
    # Three a head, told apart by the last number of their paths.
    heads = [row for row in matrices if re.search(r"\.\d+\.[012](\.|$)", row["path"])]
    if len(heads) > 3 and len(heads) % 3 == 0:
        inner = {row["path"]: "qkv"[n % 3] for n, row in enumerate(heads)}
        inner |= {re.sub(r"weight|kernel", "bias", path): which for path, which in inner.items()}
        return [(inner.get(row["path"], which), row) for which, row in named]
    wide = [row for row in matrices if max(row["shape"]) == 3 * min(row["shape"])]
    if len(matrices) == 2 and len(wide) < 2:
        # One of three times the width is for all three, and so is the one that is not for the output.
        first = wide[0] if wide else next((row for row in matrices if letter(row["path"], row["owner"]) is None), None)
        if first is None or (not wide and not any(which == "o" for which, _ in named)):
            return named
        pairs = [("qkv" if wide else "all", first), *(("o", row) for row in matrices if row is not first)]
    elif len(matrices) == 1 and re.search(r"\.\d+\.", matrices[0]["path"]):
        # A list of layers, all of which are one.
        pairs = [("same", matrices[0])]
    elif len(matrices) in (3, 4):
        pairs = list(zip("qkvo", matrices, strict=False))
    else:
        return named
    letters = {}
    for which, row in pairs:
        letters[row["path"]] = which
        letters[re.sub(r"weight|kernel", "bias", row["path"])] = which
    return [(letters.get(row["path"], which), row) for which, row in named]
