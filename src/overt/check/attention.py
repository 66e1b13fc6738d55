"""A candidate that attends: the ways to call it, and what it should then return."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from overt.check import layouts
from overt.check.interface import Interface
from overt.check.roles import letter
from overt.check.session import Here, Session
from overt.check.steps import Case, Choice, Parts, Projections, attend, normalised


@dataclass(frozen=True)
class Form:
    """One way to call: the layout of arrays, of the mask, and what surrounds the attention in a module."""

    layout: str
    flat: bool
    mask_kind: str = "keep"
    mask_shape: str = "TS"
    mask_number: bool = False
    # x W, or x Wᵀ, for weights whose owner does not say
    turned: bool = False
    norm: str | None = None
    residual: bool = False
    returns: str = "output"
    roles: tuple[str, ...] = ()
    rope: str | None = None
    causal: bool = False
    alibi: bool = False
    cosine: bool = False
    # the argument that is this mask, where two could be
    masked: str = ""
    # axes of weights with the heads apart, those of inputs and that of the output; and whether there is one key head
    apart: tuple[str, str] | None = None
    one_key: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one call came to."""

    error: dict[str, Any] | None
    outputs: list[tuple[str, np.ndarray, str]]
    changed: list[str] = field(default_factory=list)
    gradients: dict[str, np.ndarray | None] | None = None
    form: str = ""
    # bytes and seconds, where they were asked for
    weight: tuple[int, float] | None = None
    # what its recording came to, where it was recorded
    judged: dict[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> np.ndarray | None:
        return self.outputs[0][1] if self.outputs else None


@dataclass(frozen=True)
class Size:
    """Axes of one problem: batch, query heads, key heads, and so on."""

    B: int = 2
    H: int = 3
    G: int = 3
    T: int = 5
    S: int = 5
    D: int = 4

    def with_(self, **changes: int) -> Size:
        return replace(self, **changes)


SQUARE = Size()
WIDE = Size(T=5, S=7)
CUBE = Size(4, 4, 4, 4, 4, 4)


@dataclass(frozen=True, eq=False)
class Instance:
    """An object of a class in the candidate's process, with its parameters by role."""

    handle: int | None
    rows: list[dict[str, Any]]
    arrays: dict[str, np.ndarray]
    heads: int
    groups: int
    width: int
    projections: Projections | None
    norm: tuple[np.ndarray, np.ndarray, float] | None = None
    turnable: bool = False
    # whether all heads are projected by one matrix
    shared: bool = False
    window: int | None = None
    cap: float | None = None


class Attention:
    """Calls the candidate on cases and predicts what it returns."""

    def __init__(self, session: Session | Here, interface: Interface, instance: Instance | None = None) -> None:
        self.session = session
        self.interface = interface
        self.instance = instance
        self.still = False
        self.rng = 0
        self.patch: dict[str, str] = {}
        self.printed = 0
        # what lengths are a multiple of
        self.unit = 1

    def size(self, size: Size) -> Size:
        """A size that the candidate takes."""
        if self.unit > 1:
            # Short and long stay apart.
            longer = 2 if size.S > size.T else 1
            size = size.with_(
                T=self.unit, S=self.unit * longer, H=4, G=4 if size.G == size.H else 2, D=max(8, self.unit)
            )
        if self.interface.powers_of_two:
            size = size.with_(H=4, G=4)
        if self.instance is None or (self.instance.projections is None and self.instance.heads == 1):
            return size
        return size.with_(H=self.instance.heads, G=self.instance.groups, D=self.instance.width // self.instance.heads)

    def case(self, form: Form, size: Size, seed: int = 0, **features: Any) -> Case:
        """A random problem of a size, without the axes that the layout does not have."""
        size = self.size(size)
        batch, heads, queries = layouts.sizes(form.layout, form.flat)
        B, T, S, D = size.B if batch else 1, size.T if queries else 1, size.S, size.D
        H, G = (size.H, size.G) if heads else (1, 1)
        if form.layout == "BHTD-BSD" or form.one_key:
            G = 1
        if form.flat and not self.interface.has("heads") and self.instance is None and form.apart is None:
            H = G = self.interface.told_heads or 1
            D = size.D * 3 // H if 12 % H == 0 else size.D
        random = np.random.default_rng([seed, B, H, T, S, D])
        weights = self.instance.projections if self.instance else self._weights(random, H, G, D)
        same = "x" in form.roles or "qkv" in form.roles
        if form.roles == ("x",) or form.roles == ("q",):
            S = T
        if form.flat:
            F = self.instance.width if self.instance else H * D
            Fk = F if self.instance or weights else G * D
            q, k, v = random.normal(size=(B, T, F)), random.normal(size=(B, S, Fk)), random.normal(size=(B, S, Fk))
        else:
            q, k, v = (random.normal(size=(B, n, m, D)) for n, m in ((H, T), (G, S), (G, S)))
        if same and form.roles == ("x",):
            k = v = q
        elif "context" in form.roles or ("q" in form.roles and "k" in form.roles and "v" not in form.roles):
            v = k
        if form.turned and weights and self.instance:
            weights = replace(weights, weight={n: w.T for n, w in weights.weight.items()})
        features.setdefault("causal", form.causal)
        default = self.interface.by_role["cap"].default if self.interface.has("cap") else None
        if isinstance(default, float | int) and default > 0:
            features.setdefault("cap", float(default))
        if self.instance is not None and self.instance.window:
            features.setdefault("window", self.instance.window)
        if self.instance is not None and self.instance.cap:
            features.setdefault("cap", self.instance.cap)
        if self.interface.has("slopes"):
            features.setdefault("slopes", 2.0 ** -np.arange(1, H + 1))
        features.setdefault("pieces", self.interface.merges_pieces)
        features.setdefault("packed", form.roles == ("qkv",) and form.flat)
        return Case(q, k, v, H, G, weights, rope=form.rope, alibi=form.alibi, cosine=form.cosine, **features)

    def mask(self, form: Form, size: Size, seed: int = 0) -> dict[str, Any]:
        """The mask of a case as the form has it: keep and, where it depends on keys alone, padding."""
        size = self.size(size)
        batch, _, queries = layouts.sizes(form.layout, form.flat)
        B, T, S = size.B if batch else 1, size.T if queries else 1, size.S
        if form.roles in (("x",), ("q",)):
            S = T
        random = np.random.default_rng([seed, 77, B, T, S])
        additive = form.mask_kind == "additive"
        if form.mask_shape in ("BS", "B1S", "B11S", "S", "lengths", "1S"):
            lengths = np.array([S - 2 if i % 2 == 0 else max(1, S - 4) for i in range(B)])
            padding = np.arange(S) < lengths[:, None]
            if form.mask_shape != "lengths":
                # A hole, so that no causal mask looks alike.
                padding = padding.copy()
                padding[:, 1] = False
            return {"keep": padding[:, None, None, :], "padding": padding, "additive": additive}
        shared = form.mask_shape in ("TS", "1TS", "11TS")
        keep = random.random((1 if shared else B, 1, T, S)) < 0.6
        keep[..., 0] |= ~keep.any(-1)
        keep[..., -1] &= ~keep.all(-1)
        # Every key is seen by some query, so that a softmax over queries stays finite.
        keep[:, :, 0] |= ~keep.any(2)
        return {"keep": keep, "additive": additive}

    def _weights(self, random: np.random.Generator, H: int, G: int, D: int) -> Projections | None:
        """Weights for functions that take them as arguments."""
        roles = self.interface.by_role
        F = H * D
        if self.interface.has("params"):
            return self._dictionary(random, F)
        if not any(r.startswith(("W", "b")) and r not in ("base", "bias") for r in roles):
            return None
        weight: dict[str, np.ndarray] = {}
        bias: dict[str, np.ndarray] = {}
        for one in "qkvo":
            width = G * D if one in "kv" else F
            if f"W{one}" in roles or ("Wqkv" in roles and one != "o"):
                weight[one] = random.normal(size=(F, width)) * F**-0.5
            if f"b{one}" in roles or ("bqkv" in roles and one != "o"):
                bias[one] = random.normal(size=width)
        return Projections(weight, bias, packed="Wqkv" in roles)

    def _dictionary(self, random: np.random.Generator, F: int) -> Projections | None:
        """Weights for functions that take them in one dict, whose keys stand in the text."""
        weight, bias = {}, {}
        for key in self.keys:
            which = letter(key, "")
            if which in ("q", "k", "v", "o") and re.match(r"b|.*bias", key.lower()):
                bias[which] = random.normal(size=F)
            elif which in ("q", "k", "v", "o"):
                weight[which] = random.normal(size=(F, F)) * F**-0.5
            elif which == "qkv":
                weight |= {part: random.normal(size=(F, F)) * F**-0.5 for part in "qkv"}
        return Projections(weight, bias, packed=any(letter(key, "") == "qkv" for key in self.keys)) if weight else None

    @property
    def keys(self) -> list[str]:
        """Names of the weights in the argument that holds them."""
        name = self.interface.by_role["params"].name
        found = re.findall(rf"\b{name}\[\s*[\"'](\w+)[\"']\s*\]", self.interface.code)
        told = (
            re.findall(r"\b[wb]_?(?:qkv|[qkvo])\b", self.interface.text)
            if re.search(rf"\b{name}\[\w+\]", self.interface.code)
            else []
        )
        # f"w_{n}" stands for one of each letter that the text has.
        for before, after in re.findall(rf"\b{name}\[\s*f[\"'](\w*)\{{\w+\}}(\w*)[\"']", self.interface.code):
            words = re.findall(r"[\"'](q|k|v|o|query|key|value|out)[\"']", self.interface.code)
            told += [before + word + after for word in words]
        return list(dict.fromkeys(found + told))

    def call(self, form: Form, case: Case, **extra: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The call of a case: arguments by name, and the arrays that they point to."""
        arrays: dict[str, np.ndarray] = {}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        asked = extra.pop("ask", {})
        positional = True
        for a in self.interface.arguments:
            if a.parts:
                found = [self._argument(form, case, part, True, arrays, asked, "") for part in a.parts]
                if None in found:
                    raise UnknownError(a.name)
                spec: dict[str, Any] | None = {"list": found}
            else:
                spec = self._argument(form, case, a.role, a.required, arrays, asked, a.name)
            if spec is None:
                if a.required:
                    raise UnknownError(a.name)
                positional = False
                continue
            if (positional and a.kind != "keyword") or a.kind == "position":
                args.append(spec)
            else:
                kwargs[a.name] = spec
        backend = self.interface.overrides.get("--backend") or self.interface.description["backend"]
        call = {"args": args, "kwargs": kwargs, "backend": backend, "still": self.still, "train": False, **extra}
        if self.instance is not None:
            call["method"] = self.interface.description["method"]
        if self.patch:
            call["globals"] = {name: {"array": source} for name, source in self.patch.items() if source in arrays}
        return call, arrays

    def _argument(
        self,
        form: Form,
        case: Case,
        role: str | None,
        required: bool,
        arrays: dict[str, np.ndarray],
        asked: Mapping[str, Any],
        name: str,
    ) -> dict[str, Any] | None:
        def array(key: str, value: np.ndarray) -> dict[str, Any]:
            arrays[key] = value
            return {"array": key}

        if name in asked:
            return asked[name]
        if role is not None and role in asked:
            return asked[role]
        if role in ("q", "x"):
            return array("q", layouts.give(case.q, form.layout))
        if role in ("k", "v", "context", "kv"):
            if role not in form.roles:
                return None
            key = "k" if role in ("context", "kv") else role
            return array(key, layouts.give(case.k if key == "k" else case.v, form.layout, query=False))
        if role == "qkv":
            return array("q", self._packed(form, case))
        if role == "params" and case.projections is not None:
            parts = {}
            for key in self.keys:
                which = letter(key, "")
                if which == "qkv":
                    parts[key] = array(f"W{key}", self._weight("Wqkv", case, form))
                elif which:
                    prefix = "b" if re.match(r"b|.*bias", key.lower()) else "W"
                    parts[key] = array(f"W{key}", self._weight(prefix + which, case, form))
            return {"dict": parts}
        if role and role[0] in "Wb" and role not in ("base", "bias") and case.projections is not None:
            return array(role, self._weight(role, case, form))
        if role in ("mask", "padding", "lengths"):
            mine = case.keep is not None and role == self.mask_role(form)
            if not mine and not required:
                return None
            return array("mask" if mine else f"mask_{role}", self._mask(form, case, role, mine))
        values: dict[str | None, Any] = {
            "heads": case.heads,
            "groups": case.groups,
            "head_dim": case.q.shape[-1] // case.heads if case.flat else case.q.shape[-1],
            "model_dim": case.q.shape[-1],
            "causal": case.causal,
            "drop": 0.0,
            "training": False,
            "deterministic": True,
            "repeats": case.heads // case.groups,
        }
        if role == "drop" and not required and not isinstance(self.interface.by_role["drop"].default, float | int):
            return None
        if role in values and (required or role in ("causal", "heads", "groups", "training", "drop", "deterministic")):
            return {"value": values[role]}
        if role == "scale" and (required or case.scale is not None):
            return {
                "value": case.scale
                if case.scale is not None
                else float((case.q.shape[-1] // (case.heads if case.flat else 1)) ** -0.5)
            }
        if role == "cap" and (case.cap is not None or required):
            return {"value": case.cap if case.cap is not None else 1e6}
        default = self.interface.by_role["window"].default if role == "window" else None
        if role == "window" and (case.window is not None or required or (isinstance(default, int) and default > 0)):
            # One that nobody asks about sees everything.
            return {"value": case.window if case.window is not None else 1000}
        if role == "slopes" and case.slopes is not None:
            return array("slopes", case.slopes)
        if role == "bias" and (case.bias is not None or required):
            B, H, T, S = len(case.q), case.heads, case.q.shape[-2], case.k.shape[-2]
            return array(
                "bias", np.broadcast_to(case.bias, (B, H, T, S)) if case.bias is not None else np.zeros((T, S))
            )
        if required and role == "query_mask":
            return array("query_mask", np.ones((len(case.q), case.q.shape[-2]), bool))
        if required and role in ("offset", "seed"):
            return {"value": 0}
        if required and role == "cache":
            return {"value": None}
        return None

    def mask_role(self, form: Form) -> str:
        """Which argument the mask of a form is."""
        if form.mask_shape == "lengths":
            return "lengths"
        if form.masked:
            return form.masked
        padding = form.mask_shape in ("BS", "B1S", "B11S", "S", "1S")
        order = ("padding", "mask") if padding else ("mask", "padding")
        return next((r for r in order if self.interface.has(r)), "mask")

    def _mask(self, form: Form, case: Case, role: str, mine: bool) -> np.ndarray:
        B, T, S = len(case.q), case.q.shape[-2], case.k.shape[-2]
        keep = np.broadcast_to(
            case.keep if mine and case.keep is not None else np.ones((1, 1, 1, 1), bool), (B, 1, T, S)
        )
        if role == "lengths":
            return keep[:, 0, 0].sum(-1)
        shapes = {
            "TS": keep[0, 0],
            "1TS": keep[:1, 0],
            "11TS": keep[:1],
            "BTS": keep[:, 0],
            "B1TS": keep,
            "BHTS": np.repeat(keep, case.heads, axis=1),
            "FTS": np.repeat(keep[:, 0], case.heads, axis=0),
            "BS": keep[:, 0, 0],
            "B1S": keep[:, 0, :1],
            "B11S": keep[:, :, :1],
            "S": keep[0, 0, 0],
            "1S": keep[0, 0, :1],
        }
        shown = shapes[form.mask_shape]
        if form.mask_kind == "additive":
            low = -1e9 if form.mask_number else -np.inf
            if case.bias is not None and shown.ndim >= 2:
                bias = np.broadcast_to(case.bias, keep.shape).reshape(-1, T, S)[: max(1, shown.size // (T * S))]
                return np.where(shown, bias.reshape(shown.shape) if bias.size == shown.size else case.bias[0, 0], low)
            return np.where(shown, 0.0, low)
        shown = shown if form.mask_kind == "keep" else ~shown
        return shown.astype(np.float64) if form.mask_number else shown

    def _packed(self, form: Form, case: Case) -> np.ndarray:
        if case.flat:
            return layouts.give(np.concatenate([case.q, case.k, case.v], axis=-1), form.layout)
        if form.mask_shape.endswith("Q"):
            return np.stack([layouts.give(x, form.layout) for x in (case.q, case.k, case.v)], axis=0)
        return np.stack([case.q, case.k, case.v], axis=1).transpose(0, 3, 1, 2, 4)

    def _weight(self, role: str, case: Case, form: Form) -> np.ndarray:
        projections = case.projections
        assert projections is not None
        which = projections.weight if role[0] == "W" else projections.bias
        letters = role[1:] if role[1:] == "qkv" else role[1:2]
        found = np.concatenate([which[part] for part in letters], axis=-1)
        if form.apart is not None and found.ndim == 2 and not (form.one_key and letters in ("k", "v")):
            # Columns are (H, d), or rows where it is the output's.
            H = case.heads
            axes = form.apart[letters == "o"]
            whole = found.reshape(H, -1, found.shape[1]) if letters == "o" else found.reshape(len(found), H, -1)
            return whole.transpose([("HKD" if letters == "o" else "DHK").index(axis) for axis in axes])
        return found.T if form.turned and role[0] == "W" else found

    def run(
        self, calls: Sequence[tuple[dict[str, Any], dict[str, np.ndarray]]], *, same: bool = False
    ) -> list[Outcome]:
        """Make calls, in one request."""
        arrays: dict[str, np.ndarray] = {}
        specs = []
        for number, (call, mine) in enumerate(calls):
            prefix = "" if same else f"{number}_"
            arrays |= {prefix + name: value for name, value in mine.items()}
            specs.append(_renamed(call, prefix))
        handle = self.instance.handle if self.instance else None
        reply, found = self.session.ask({"op": "call", "handle": handle, "calls": specs, "same": same}, arrays)
        if "error" in reply:
            return [Outcome(reply["error"], []) for _ in calls]
        outcomes = []
        for one in reply["replies"]:
            if "error" in one:
                outcomes.append(Outcome(one["error"], []))
                continue
            gradients = one.get("gradients")
            outcomes.append(
                Outcome(
                    None,
                    [(o["path"], found[o["key"]], o["dtype"]) for o in one["outputs"]],
                    [name.split("_", 1)[-1] if not same else name for name in one["changed"]],
                    None
                    if gradients is None
                    else {n.split("_", 1)[-1]: None if g is None else found[g] for n, g in gradients.items()},
                    one["form"],
                    (one["bytes"], one["seconds"]) if "bytes" in one else None,
                    one.get("judged", {}),
                )
            )
        self.printed += reply.get("printed", 0)
        return outcomes

    def one(self, form: Form, case: Case, **extra: Any) -> Outcome:
        """One call of a case."""
        return self.run([self.call(form, case, **extra)])[0]

    def predict(self, form: Form, case: Case, choice: Choice) -> Parts:
        """The reference, or one of its variants, with what surrounds it in a module."""
        given = case.q
        if form.norm == "before" and self.instance and self.instance.norm:
            q, k, v = (normalised(x, *self.instance.norm) for x in (case.q, case.k, case.v))
            case = replace(case, q=q, k=k, v=v)
        parts = attend(case, choice)
        output = parts.output
        if form.residual:
            output = output + given
        if form.norm == "after" and self.instance and self.instance.norm:
            with np.errstate(invalid="ignore"):
                output = normalised(output, *self.instance.norm)
        return parts if output is parts.output else replace(parts, output=output)

    def error(self, form: Form, parts: Parts, outcome: Outcome) -> float | None:
        """Largest difference from a prediction relative to it, None where the shapes do not fit."""
        seen = self.observed(form, parts, outcome)
        if seen is None:
            return None
        if form.returns == "weights":
            return difference(seen, parts.weights, parts.empty)
        empty = parts.empty if parts.output.ndim == 4 else np.asarray(parts.empty.any(axis=1))
        if parts.idle is not None:
            # Padding that asks may get nothing.
            idle = np.broadcast_to(parts.idle if empty.ndim == 2 else parts.idle[:, None], empty.shape)
            if not seen[idle].any():
                empty = empty | idle
        return difference(seen, parts.output, empty)

    def observed(self, form: Form, parts: Parts, outcome: Outcome) -> np.ndarray | None:
        """The output, or the weights where nothing else is returned, in the checker's axes."""
        for _, array, _ in outcome.outputs:
            if form.returns == "weights":
                found = layouts.take_weights(array, form.layout, parts.weights.shape)
                if found is not None and found[0].shape == parts.weights.shape:
                    return found[0]
            else:
                seen = layouts.take(array, form.layout, parts.output.shape)
                if seen is not None:
                    return seen
        return None


class UnknownError(Exception):
    """An argument whose meaning nobody could tell."""


def difference(seen: np.ndarray, expected: np.ndarray, empty: np.ndarray | None = None) -> float:
    """Largest difference relative to the largest number; infinite where one is NaN and the other is not."""
    if empty is not None and empty.any():
        hide = empty[(...,) + (None,) * (expected.ndim - empty.ndim)]
        seen, expected = np.asarray(np.where(hide, 0, seen)), np.asarray(np.where(hide, 0, expected))
    with np.errstate(all="ignore"):
        finite = np.isfinite(expected)
        if (np.isfinite(seen) != finite).any():
            return np.inf
        if not finite.any():
            return 0.0
        scale = max(float(np.abs(expected[finite]).max()), 1e-3)
        return float(np.max(np.abs(np.where(finite, seen - expected, 0)))) / scale


def _renamed(spec: Any, prefix: str) -> Any:
    if isinstance(spec, dict):
        if set(spec) == {"array"}:
            return {"array": prefix + spec["array"]}
        return {name: _renamed(part, prefix) for name, part in spec.items()}
    if isinstance(spec, list | tuple):
        return [_renamed(part, prefix) for part in spec]
    return spec
