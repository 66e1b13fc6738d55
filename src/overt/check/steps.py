"""Attention in float64, each of whose steps can be switched to a known mistake.

``attend(case, choice)`` is the reference where ``choice`` is empty.
An entry {step: option} replaces one step; an option is named after its mistake, with what tells forms of it apart
behind a colon.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Choice = Mapping[str, str]

STEPS: dict[str, tuple[str, ...]] = {
    "share": tuple(
        f"shared_projection:{how}" for how in ("qqq", "kkk", "vvv", "qqv", "kkv", "qkk", "qvv", "qkq", "bias", "head")
    ),
    "packed": tuple(
        f"qkv_order:{how}"
        for how in ("heads first", "head by head", "qvk", "kqv", "kvq", "vqk", "vkq", "kv of each head")
    ),
    "split": ("split_view", "split_view:d first"),
    "merge": ("merge_view", "merge_view:d first"),
    "fold": ("fold_batch_head_swap:in", "fold_batch_head_swap:out"),
    "group": (
        "gqa_tile",
        "gqa_repeat_wrong_axis:interleave",
        "gqa_repeat_wrong_axis:tile",
        "gqa_repeat_wrong_axis:view",
        "gqa_repeat_wrong_axis:cut",
        "gqa_repeat_wrong_axis:cut tile",
    ),
    "rope": ("rope_layout:half rotation", "rope_layout:interleaved rotation", "rope_offset"),
    "transpose": (
        "k_transposed_wrong:reversed",
        "k_transposed_wrong:1,2",
        "k_transposed_wrong:0,1",
        "k_transposed_wrong:none",
    ),
    "scale": (
        "scale_missing",
        "scale_d",
        "scale_dmodel",
        "scale_dmodel:in",
        "scale_inverted",
        "scale_inverted:d",
        "scale_seqlen",
        "scale_seqlen:T",
        "scale_num_heads",
    ),
    "sign": ("alibi_sign",),
    "slopes": ("alibi_slopes:from 0", "alibi_slopes:formula", "alibi_slopes:from 0 formula"),
    "distance": ("alibi_offset",),
    "cap": ("softcap_missing", "softcap_after_mask"),
    "align": ("causal_top_left",),
    "diagonal": ("causal_off_by_one:+1", "causal_off_by_one:-1"),
    "causal": ("causal_missing", "mask_inverted:causal"),
    "window": ("window_off_by_one", "window_off_by_one:+1", "window_off_by_one:-2"),
    "pieces": tuple(f"lse_base2:{how}" for how in ("split 2", "split 3", "split 4", "by 2", "by 3", "by 4")),
    "mask": (
        "mask_inverted",
        "mask_bool_as_float",
        "mask_bool_as_float:drop",
        "mask_after_softmax",
        "mask_times_scores",
        "mask_sign_inf",
        "not_inplace",
        "pad_on_query",
        "mask_fold_order:bh",
        "mask_fold_order:hb",
        *(f"mask_fill_too_small:{fill}" for fill in (-1, -2, -5, -9, -10, -15, -20)),
        *(f"mask_fill_too_small:+{fill}" for fill in (-1, -2, -5, -9, -10, -15, -20)),
    ),
    "softmax": (
        "softmax_axis_q",
        "softmax_axis_q:row max",
        "softmax_axis_head_or_batch:head",
        "softmax_axis_head_or_batch:batch",
        "softmax_heads_and_keys",
        "softmax_global",
        "softmax_global:all",
        "softmax_global:row max",
        "softmax_global:all, row max",
        "softmax_partial_max",
        "softmax_partial_max:denominator",
        "no_exp_norm",
        "softmax_missing",
    ),
}
# What can be wrong with a mask that is given while the causal one is right.
_ALONE = (
    "mask_inverted",
    "mask_bool_as_float",
    "mask_bool_as_float:drop",
    "mask_after_softmax",
    "mask_times_scores",
    "not_inplace",
)


@dataclass(frozen=True, eq=False)
class Projections:
    """Weights (in, out) and biases (out,) by letter: q, k, v, o; an absent one is the identity.  out is (H, d)."""

    weight: dict[str, np.ndarray] = field(default_factory=dict)
    bias: dict[str, np.ndarray] = field(default_factory=dict)
    packed: bool = False
    # whether k and v have one together, without q
    paired: bool = False
    # layer norms of q and k: weight, bias, eps, and whether the mean is subtracted
    norms: dict[str, tuple[np.ndarray, np.ndarray | float, float, bool]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Case:
    """One problem: q (B, H, T, D), k (B, G, S, D), v (B, G, S, E), or all (B, length, width) with heads inside."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    heads: int
    groups: int
    projections: Projections | None = None
    # keep (B, 1, T, S) or one that broadcasts to it, True = may attend; padding (B, S) where the mask is one
    keep: np.ndarray | None = None
    padding: np.ndarray | None = None
    # whether the mask is given as numbers that are added
    additive: bool = False
    causal: bool = False
    window: int | None = None
    # a window looks both ways unless it is causal
    cap: float | None = None
    slopes: np.ndarray | None = None
    alibi: bool = False
    # cosines of q and k, which no width scales
    cosine: bool = False
    rope: str | None = None
    positions: tuple[int, int] = (0, 0)
    base: float = 10_000.0
    bias: np.ndarray | None = None
    scale: float | None = None
    fill: float = -np.inf
    # whether the candidate merges results over pieces of the keys
    pieces: bool = False
    # whether q, k and v are given as one array of flat widths
    packed: bool = False

    @property
    def flat(self) -> bool:
        return self.q.ndim == 3

    @property
    def split(self) -> bool:
        """Whether heads are split off a flat width."""
        return self.flat and self.heads > 1


@dataclass(frozen=True, eq=False)
class Parts:
    """What attention computes: output as it was given, weights and scores (B, H, T, S), lse (B, H, T), empty rows."""

    output: np.ndarray
    weights: np.ndarray
    scores: np.ndarray
    raw: np.ndarray
    lse: np.ndarray
    empty: np.ndarray
    # queries (B, T) that are padding themselves
    idle: np.ndarray | None = None


def relevant(case: Case) -> set[str]:
    """The steps that this problem has."""
    steps = {"scale", "softmax"}
    if case.scale is not None or case.cosine:
        steps -= {"scale"}
    if case.projections and {"q", "k", "v"} & set(case.projections.weight):
        steps |= {"share"}
        if case.projections.packed or case.projections.paired:
            steps |= {"packed"}
    if case.packed and case.split:
        steps |= {"packed"}
    if case.split:
        steps |= {"split", "merge", "fold"}
    if case.groups != case.heads:
        steps |= {"group"}
    if case.pieces:
        steps |= {"pieces"}
    if case.rope:
        steps |= {"rope"}
    if case.alibi or case.slopes is not None:
        steps |= {"sign", "distance"} | ({"slopes"} if case.alibi else set())
    if case.cap is not None:
        steps |= {"cap"}
    if case.causal:
        steps |= {"align", "diagonal", "causal", "mask"}
    if case.window is not None:
        steps |= {"window", "mask"}
    if case.keep is not None:
        steps |= {"mask"}
    shapes = {*case.q.shape, *case.k.shape} - ({1} if not case.flat and case.heads == 1 else set())
    if case.split:
        shapes = {*case.q.shape[:2], case.k.shape[1], case.q.shape[2] // case.heads}
    if len(shapes) == 1:
        steps |= {"transpose"}
    return steps


def options(case: Case, step: str) -> tuple[str, ...]:
    """The mistakes that can be made in a step of this problem."""
    found = STEPS[step]
    if not case.flat or case.projections is None:
        found = tuple(o for o in found if o != "scale_dmodel:in")
    if case.heads == 1:
        # With one head these are other mistakes, or none.
        found = tuple(
            o
            for o in found
            if o not in ("scale_num_heads", "scale_dmodel", "softmax_axis_head_or_batch:head", "softmax_heads_and_keys")
        )
    if step == "packed":
        paired = case.projections is not None and case.projections.paired
        found = tuple(o for o in found if o.endswith("kv of each head") == paired)
    if len(case.q) == 1:
        found = tuple(
            o
            for o in found
            if o != "softmax_axis_head_or_batch:batch" and ("softmax_global:all" not in o or case.heads > 1)
        )
    if step == "mask":
        shape = _shape(case)
        if case.padding is None or shape[2] != shape[3]:
            found = tuple(o for o in found if o != "pad_on_query")
        if case.keep is None:
            found = tuple(o for o in found if "fold_order" not in o and o != "not_inplace" and o != "mask_inverted")
        elif case.causal or case.window is not None:
            found += tuple(f"{o}:alone" for o in _ALONE)
        if case.additive:
            # The opposite reading of an additive mask is a boolean one.
            found = tuple(o.replace("mask_inverted", "mask_float_as_bool") for o in found)
    return found


def attend(case: Case, choice: Choice) -> Parts:
    """Scores, scale, softcap, bias, mask, softmax, values; with the steps of ``choice`` done wrong."""
    with np.errstate(all="ignore"):
        return _attend(case, choice)


def _attend(case: Case, choice: Choice) -> Parts:
    q, k, v = _heads(case, choice)
    if case.rope:
        q = _rotate(q, case, case.positions[0], choice.get("rope"))
        k = _rotate(k, case, case.positions[1], choice.get("rope"))
    if case.cosine:
        q, k = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (q, k))
    k, v = (_grouped(x, case, choice.get("group")) for x in (k, v))
    B, H, T, D = q.shape
    S = k.shape[2]
    raw = _products(q, k, choice.get("transpose"), case.flat)
    scores = raw * _scale(case, choice.get("scale"), D, H, T, S)
    given, cells = _visible(case, choice, (B, H, T, S))
    how = choice.get("mask")
    if how is not None and how.endswith(":alone"):
        # The causal mask beside the wrong one is right.
        how = how.removesuffix(":alone")
    elif cells is not None:
        given, cells = cells if given is None else given & cells, None
    cap = choice.get("cap")
    if case.cap is not None and cap is None:
        scores = case.cap * np.tanh(scores / case.cap)
    if case.alibi or case.slopes is not None:
        scores = scores + alibi(case, choice, H, T, S)
    if case.bias is not None:
        scores = scores + case.bias
    scores, empty = _masked(scores, given, how, case.fill)
    if cells is not None:
        scores, more = _masked(scores, cells, None, case.fill)
        empty = empty | more | (np.isneginf(scores).all(-1) & (case.fill == -np.inf))
    if cap == "softcap_after_mask" and case.cap is not None:
        scores = case.cap * np.tanh(scores / case.cap)
        empty = np.zeros_like(empty)
    weights = softmax(scores, choice.get("softmax"))
    if "pieces" in choice:
        weights = _wrong_base(scores, choice["pieces"])
    if how == "mask_after_softmax" and given is not None:
        weights = weights * given
    top = np.max(scores, axis=-1, keepdims=True)
    lse = np.log(np.exp(scores - top).sum(axis=-1)) + top[..., 0]
    idle = ~case.padding if case.padding is not None and case.q is case.k else None
    return Parts(_merge(weights @ v, case, choice), weights, scores, raw, lse, empty, idle)


def _wrong_base(scores: np.ndarray, how: str) -> np.ndarray:
    """Weights of pieces of the keys, merged by exp of log-sum-exps in base 2."""
    unit, number = how.partition(":")[2].split()
    S, n = scores.shape[-1], int(number)
    pieces = np.array_split(scores, n if unit == "split" else range(n, S, n), axis=-1)
    totals = [np.log2(np.exp(p).sum(-1, keepdims=True)) for p in pieces]
    shares = softmax(np.concatenate(totals, axis=-1), None)
    return np.concatenate([softmax(p, None) * shares[..., i : i + 1] for i, p in enumerate(pieces)], axis=-1)


def softmax(scores: np.ndarray, how: str | None, axis: int = -1, *, top: str | None = None) -> np.ndarray:
    """Along one axis of (B, H, T, S), or wrong; ``top``: no maximum is subtracted, or that of all numbers."""
    axes: Any = {
        "softmax_axis_q": -2,
        "softmax_axis_q:row max": -2,
        "softmax_axis_head_or_batch:head": 1,
        "softmax_axis_head_or_batch:batch": 0,
        "softmax_heads_and_keys": (1, 3),
        "softmax_global": (-2, -1),
        "softmax_global:all": None,
        "softmax_global:row max": (-2, -1),
        "softmax_global:all, row max": None,
    }.get(how or "", axis)
    if how == "softmax_missing":
        return scores
    if how == "no_exp_norm":
        return scores / scores.sum(axis=axis, keepdims=True)
    most = scores.max(axis=None if top else -1 if how and how.endswith("row max") else axes, keepdims=True)
    with np.errstate(all="ignore"):
        powers = np.exp(scores - np.where(np.isfinite(most) & (top != "no_max"), most, 0))
        if how == "softmax_partial_max":
            return powers / np.exp(scores).sum(axis=axes, keepdims=True)
        if how == "softmax_partial_max:denominator":
            return np.exp(scores) / powers.sum(axis=axes, keepdims=True)
        return powers / powers.sum(axis=axes, keepdims=True)


def alibi(case: Case, choice: Choice, H: int, T: int, S: int) -> np.ndarray:
    """The bias (H, T, S) of ALiBi."""
    slopes = case.slopes if case.slopes is not None else slopes_of(H, choice.get("slopes"))
    offset = 0 if "distance" in choice else S - T
    distance = np.arange(S) - (np.arange(T)[:, None] + offset)
    # Behind the query the penalty grows with the distance; whether it does ahead too, only a causal mask makes equal.
    sign = -1.0 if "sign" not in choice else 1.0
    return sign * slopes[:, None, None] * np.abs(distance)


def slopes_of(H: int, how: str | None) -> np.ndarray:
    """Slopes (H,) of ALiBi."""
    first = 0 if how and "from 0" in how else 1

    def plain(n: int) -> np.ndarray:
        return 2.0 ** (-8.0 / n * np.arange(first, n + first))

    if (how and "formula" in how) or H & (H - 1) == 0:
        return plain(H)
    below = 1 << (H.bit_length() - 1)
    return np.concatenate([plain(below), plain(2 * below)[::2][: H - below]])


def frequencies(width: int, base: float = 10_000.0) -> np.ndarray:
    """Angular frequencies base^(−2i/width) of sinusoidal and rotary positions, (width/2,).  Vaswani et al. 2017."""
    return base ** (-np.arange(0, width, 2) / width)


def rotate(
    x: np.ndarray, points: np.ndarray, layout: str, how: str | None = None, base: float = 10_000.0
) -> np.ndarray:
    """Rotary embedding of x (…, T, D) at positions (T,); layout half or interleaved."""
    D = x.shape[-1]
    angles = points[:, None] * frequencies(D, base)
    spread = layout
    if how == "rope_layout:half rotation":
        layout, spread = "half", "interleaved"
    elif how == "rope_layout:interleaved rotation":
        layout, spread = "interleaved", "half"
    wide = np.repeat(angles, 2, axis=-1) if spread == "interleaved" else np.concatenate([angles, angles], axis=-1)
    if layout == "half":
        turned = np.concatenate([-x[..., D // 2 :], x[..., : D // 2]], axis=-1)
    else:
        turned = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return x * np.cos(wide) + turned * np.sin(wide)


def _rotate(x: np.ndarray, case: Case, start: int, how: str | None) -> np.ndarray:
    assert case.rope is not None
    first = 0 if how == "rope_offset" else start
    return rotate(x, first + np.arange(x.shape[2]), case.rope, how, case.base)


def _heads(case: Case, choice: Choice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Project and split into (B, H, T, D), (B, G, S, D), (B, G, S, E)."""
    x = dict(zip("qkv", (case.q, case.k, case.v), strict=True))
    if case.packed and "packed" in choice:
        rows = {letter: array.reshape(-1, array.shape[-1]) for letter, array in x.items()}
        how = choice["packed"].partition(":")[2]
        x = {letter: _unpacked(rows, letter, how, case.heads).reshape(array.shape) for letter, array in x.items()}
    if case.projections is not None:
        x = {letter: _project(case, choice, letter, array) for letter, array in x.items()}
    norms = case.projections.norms if case.projections is not None else {}
    x |= {one: normalised(x[one], *norm) for one, norm in norms.items() if len(norm[0]) == x[one].shape[-1]}
    if not case.flat:
        return x["q"], x["k"], x["v"]
    split = choice.get("split")
    found = []
    for letter, array in x.items():
        B, T, F = array.shape
        H = case.heads if letter == "q" else case.groups
        if split == "split_view":
            heads = array.reshape(B, H, T, F // H)
        elif split == "split_view:d first":
            heads = array.reshape(B, T, F // H, H).transpose(0, 3, 1, 2)
        else:
            heads = array.reshape(B, T, H, F // H).swapaxes(1, 2)
        if letter in norms and len(norms[letter][0]) == F // H < F:
            heads = normalised(heads, *norms[letter])
        found.append(heads)
    return found[0], found[1], found[2]


def normalised(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray | float, eps: float, centred: bool = True
) -> np.ndarray:
    """A layer norm over the last axis, or a root mean square norm where the mean is not subtracted."""
    x = x - x.mean(-1, keepdims=True) if centred else x
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight + bias


def _project(case: Case, choice: Choice, letter: str, x: np.ndarray) -> np.ndarray:
    assert case.projections is not None
    weight, bias = case.projections.weight, case.projections.bias
    share = choice.get("share", "").partition(":")[2]
    source = share["qkv".index(letter)] if len(share) == 3 else letter
    w, b = weight.get(source), bias.get("q" if share == "bias" and "q" in bias else source)
    packed = choice.get("packed", "").partition(":")[2]
    if packed == "kv of each head":
        if letter != "q":
            w = _paired(weight, letter, case.groups)
            b = _paired({n: a[None] for n, a in bias.items()}, letter, case.groups)[0] if "k" in bias else None
    elif packed and all(part in weight for part in "qkv"):
        w = _unpacked(weight, letter, packed, case.heads)
        b = _unpacked({k: v[None] for k, v in bias.items()}, letter, packed, case.heads)[0] if len(bias) >= 3 else b
    if share == "head" and w is not None:
        H = case.heads if letter == "q" else case.groups
        w = np.tile(w[:, : w.shape[1] // H], (1, H))
        b = None if b is None else np.tile(b[: b.shape[0] // H], H)
    x = x if w is None else x @ w
    return x if b is None else x + b


def _paired(weight: Mapping[str, np.ndarray], letter: str, G: int) -> np.ndarray:
    """The part that k or v gets of [k | v] (in, 2 G d) where each head has its k and v together."""
    whole = np.concatenate([weight["k"], weight["v"]], axis=-1)
    return whole.reshape(len(whole), G, 2, -1)[:, :, "kv".index(letter)].reshape(len(whole), -1)


def _unpacked(weight: Mapping[str, np.ndarray], letter: str, how: str, H: int) -> np.ndarray:
    """The part that q, k or v gets of [q | k | v] (in, 3 H d) read in another order."""
    if len(how) == 3:
        return weight[how["qkv".index(letter)]]
    whole = np.concatenate([weight[part] for part in "qkv"], axis=-1)
    n = whole.shape[-1] // 3
    parts = whole.reshape(len(whole), H, 3, n // H) if how == "heads first" else whole.reshape(len(whole), n // H, 3, H)
    part = parts[:, :, "qkv".index(letter)]
    return (part if how == "heads first" else part.swapaxes(1, 2)).reshape(len(whole), n)


def _grouped(x: np.ndarray, case: Case, how: str | None) -> np.ndarray:
    """Key heads (B, G, S, D) repeated to (B, H, S, D)."""
    B, G, S, D = x.shape
    r = case.heads // G
    if r == 1:
        return x
    if how == "gqa_tile":
        return np.tile(x, (1, r, 1, 1))
    if how == "gqa_repeat_wrong_axis:interleave":
        return np.repeat(x, r, axis=2).reshape(B, G * r, S, D)
    if how == "gqa_repeat_wrong_axis:tile":
        return np.tile(x.swapaxes(1, 2), (1, r, 1, 1)).reshape(B, S, G * r, D).swapaxes(1, 2)
    if how == "gqa_repeat_wrong_axis:view":
        return np.tile(x.swapaxes(1, 2), (1, 1, r, 1)).reshape(B, G * r, S, D)
    if how and how.startswith("gqa_repeat_wrong_axis:cut"):
        # Heads that follow one another are other positions of the longer sequence.
        long = (np.tile(x, (1, 1, r, 1)) if "tile" in how else np.repeat(x, r, axis=2)).reshape(B, G, r, S, D)
        return long.swapaxes(1, 2).reshape(B, G * r, S, D)
    return np.repeat(x, r, axis=1)


def _products(q: np.ndarray, k: np.ndarray, how: str | None, flat: bool) -> np.ndarray:
    if how is None:
        return np.matmul(q, k.swapaxes(-1, -2))
    detail = how.partition(":")[2]
    if flat or (q.shape[1] == 1 and q.shape[0] > 1):
        # Heads one by one, each with three axes.
        axes = {"reversed": (2, 1, 0), "1,2": (0, 2, 1), "0,1": (1, 0, 2), "none": (0, 1, 2)}[detail]
        return np.stack([np.matmul(q[:, h], k[:, h].transpose(axes)) for h in range(q.shape[1])], axis=1)
    axes4 = {"reversed": (3, 2, 1, 0), "1,2": (0, 2, 1, 3), "0,1": (1, 0, 2, 3), "none": (0, 1, 2, 3)}[detail]
    return np.matmul(q, k.transpose(axes4))


def _scale(case: Case, how: str | None, D: int, H: int, T: int, S: int) -> float:
    if case.scale is not None or case.cosine:
        return 1.0 if case.scale is None else case.scale
    divisor = {
        None: D,
        "scale_missing": 1,
        "scale_d": D * D,
        "scale_dmodel": H * D,
        "scale_dmodel:in": case.q.shape[-1],
        "scale_inverted": 1 / D,
        "scale_inverted:d": 1 / D**2,
        "scale_seqlen": S,
        "scale_seqlen:T": T,
        "scale_num_heads": H,
    }[how]
    return float(divisor**-0.5)


def _shape(case: Case) -> tuple[int, int, int, int]:
    return case.q.shape[0], case.heads, case.q.shape[-2], case.k.shape[-2]


def _visible(
    case: Case, choice: Choice, shape: tuple[int, int, int, int]
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The mask that is given, and that of causality and window, (B, H, T, S) each; None where everything is seen."""
    B, H, T, S = shape
    keep = None
    if case.keep is not None:
        keep = np.broadcast_to(case.keep, shape)
        how = choice.get("mask", "")
        if how == "pad_on_query" and case.padding is not None:
            keep = np.broadcast_to(case.padding[:, None, :, None], shape)
        elif how.startswith("mask_fold_order") and len(case.keep) == B:
            # Row b·H + h of the fold reads the mask of sample i % B, or row h·B + b that of i // H.
            b, h = np.arange(B)[:, None], np.arange(H)
            sample = (b * H + h) % B if how.endswith("bh") else (h * B + b) // H
            keep = np.broadcast_to(case.keep, shape)[sample, h]
    position = np.arange(T)[:, None] + (0 if "align" in choice else S - T)
    cells = None
    if case.causal and choice.get("causal") != "causal_missing":
        diagonal = {"causal_off_by_one:+1": 1, "causal_off_by_one:-1": -1}.get(choice.get("diagonal", ""), 0)
        cells = np.arange(S) <= position + diagonal
        if choice.get("causal") == "mask_inverted:causal":
            cells = ~cells
    if case.window is not None:
        extra = {"window_off_by_one": -1, "window_off_by_one:+1": 1, "window_off_by_one:-2": -2}
        reach = case.window + extra.get(choice.get("window", ""), 0)
        near = np.abs(np.arange(S) - position) <= reach
        cells = near if cells is None else cells & near
    return keep, None if cells is None else np.broadcast_to(cells, shape)


def _masked(scores: np.ndarray, keep: np.ndarray | None, how: str | None, fill: float) -> tuple[np.ndarray, np.ndarray]:
    """Scores with the mask applied, and the rows (B, H, T) that see nothing."""
    nothing = np.zeros(scores.shape[:-1], bool)
    if keep is None or how in ("not_inplace", "mask_after_softmax"):
        return scores, nothing
    if how in ("mask_inverted", "mask_float_as_bool"):
        return np.where(keep, fill, scores), np.asarray(keep.all(-1))
    if how == "mask_bool_as_float":
        return scores + keep, nothing
    if how == "mask_bool_as_float:drop":
        return scores + ~keep, nothing
    if how == "mask_times_scores":
        return scores * keep, nothing
    if how == "mask_sign_inf":
        return np.where(keep, scores, np.inf), nothing
    if how and how.startswith("mask_fill_too_small"):
        text = how.partition(":")[2]
        amount = float(text.removeprefix("+"))
        return np.where(keep, scores, scores + amount if text.startswith("+") else amount), nothing
    return np.where(keep, scores, fill), np.asarray(~keep.any(-1))


def _merge(output: np.ndarray, case: Case, choice: Choice) -> np.ndarray:
    """(B, H, T, E) as it was given: heads, or one flat width, projected."""
    B, H, T, E = output.shape
    fold = choice.get("fold")
    if fold == "fold_batch_head_swap:in":
        output = output.reshape(H, B, T, E).swapaxes(0, 1)
    elif fold == "fold_batch_head_swap:out":
        output = output.swapaxes(0, 1).reshape(B, H, T, E)
    if not case.flat:
        return output
    if choice.get("merge") == "merge_view":
        flat = output.reshape(B, T, H * E)
    elif choice.get("merge") == "merge_view:d first":
        flat = output.transpose(0, 2, 3, 1).reshape(B, T, H * E)
    else:
        flat = output.swapaxes(1, 2).reshape(B, T, H * E)
    if case.projections is not None:
        w, b = case.projections.weight.get("o"), case.projections.bias.get("o")
        flat = flat if w is None else flat @ w
        flat = flat if b is None else flat + b
    return flat
