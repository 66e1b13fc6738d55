"""Attention of recurrent networks: additive scores (Bahdanau), products (Luong), and the attentional vector.

One state, or several, attends to the states of an encoder.  What a candidate computes is found by trying every reading
of its weights: which matrix meets the state and which the encoder, and which makes the attentional vector.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from overt.check.attention import difference
from overt.check.block import Block
from overt.check.findings import Findings
from overt.check.forms import PuzzledError
from overt.check.instances import WIDTH, constructor, first_call
from overt.check.interface import Interface
from overt.check.mistakes import name_of, rank
from overt.check.readings import Reading, readings, widths
from overt.check.roles import Argument
from overt.check.search import LOOSE
from overt.check.session import Here, Session
from overt.check.steps import STEPS, Case, Parts, attend, options

_SOFTMAX: tuple[str | None, ...] = (
    None,
    *(o for o in STEPS["softmax"] if o in ("softmax_axis_head_or_batch:batch",) or "head" not in o),
)
_ADDITIVE = (None, "additive_no_tanh", "additive_ignores_keys", "additive_no_pairwise", "additive_no_pairwise:one row")
_INPUTS = ("q", "k", "v", "x", "context", "kv")
_MASKS = ("mask", "padding", "lengths", "query_mask")
# Names of the state that asks, of the states that are asked, and of weights.
_STATE = (
    r"q|quer(y|ies)|s(_?t|_?i|_?prev|_?t_?1|_?tm1)?|st|h_?t|ht|hidden(_state)?|state|d_?t?|x"
    r"|(dec|tgt|target|prev|last|current|rnn|lstm|gru)\w*"
)
_STATES = (
    r"k|keys?|v|values?|hs?|h_?(s|j|enc|src|bar)|ann|bank|context|inputs|features|outputs"
    r"|(enc|mem|annot|src|source)\w*"
)
_WEIGHT = (
    r"[wuv]|[wuv]_?(\w|att|attn|score|enc|dec|cat|out|concat|comb\w*|\d)|(w|b|weight|proj|kernel)_\w+"
    r"|\w*(weight|bias|proj|matrix)s?|b"
)
_VECTOR = r"w_?(c|cat|concat|out|o|comb\w*|tilde|h)|\w*(concat|combine|tilde)\w*"
# Several queries come first, and one sample by itself last: what runs with more axes is likelier meant.
_SHAPES = (("pairs", "square"), ("BD", "B1D", "1BD", "BD-SBD", "1BD-BSD"), ("TD", "1D", "D", "column"))
_SIZES = {"pairs": (2, 3, 4), "square": (2, 4, 4), "TD": (1, 3, 4)}


def check(session: Session | Here, face: Interface, findings: Findings, overrides: dict[str, str]) -> bool:
    """Check a candidate whose score is additive, or which is Luong's; False where it is neither."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", face.name).lower()
    function = face.description["kind"] == "function"
    luong = bool(re.search(r"luong|attentional_vector|global_attention", name + face.prose))
    if luong and function and _vector_alone(session, face, findings, name):
        return True
    said = bool(
        re.search(r"additive(?!_mask| mask)|bahdanau|concat_?att|attn_?concat|mlp_?att", name)
        or re.search(r"\badditive (att|score)|bahdanau|v\W{1,4}(\*|·|\.)?\s*tanh", face.prose)
    )
    structure = "tanh" in face.code and not re.search(r"cap\b|softcap|gelu", face.code)
    candidate = _Recurrent(session, face, findings, overrides, luong)
    if candidate.sides is None or (function and "tanh" not in face.code and not candidate.weights):
        return False
    if not (said or luong or structure or candidate.two_ask):
        return False
    if not said and not luong and function and not face.has("context"):
        return False
    return candidate.judge(said)


@dataclass(frozen=True, eq=False)
class _Setting:
    """One problem: queries (B, T, Dq) and keys (B, S, Dk) in a shape, and what is given beside them."""

    shape: str
    q: np.ndarray
    k: np.ndarray
    given: dict[str, np.ndarray]
    readings: list[Reading]
    handle: int | None
    # what is given for masks, by argument; keep (B, S) where one hides something
    masks: dict[str, Any] = field(default_factory=dict)
    keep: np.ndarray | None = None
    additive: bool = False


class _Match:
    """The mistakes, by step, with which a reading gives the candidate's numbers."""

    def __init__(self, setting: _Setting, reading: Reading, choice: dict[str, str]) -> None:
        self.setting, self.reading, self.choice = setting, reading, choice

    @property
    def cost(self) -> tuple[int, int]:
        return len(self.choice), rank(self.choice)


class _Recurrent:
    """Calls in a few shapes, and the ways to read the weights."""

    def __init__(
        self, session: Session | Here, face: Interface, findings: Findings, overrides: dict[str, str], luong: bool
    ) -> None:
        self.session, self.face, self.findings, self.luong = session, face, findings, luong
        self.function = face.description["kind"] == "function"
        self.error: dict[str, Any] | None = None
        self.names: dict[str, str] = {}
        self.masks = [a for a in face.arguments if a.role in _MASKS]
        self.bundle = next((a for a in face.arguments if a.parts), None)
        self.weights: list[Argument] = []
        self.sides = self._sides(overrides)
        self.two_ask = self.sides is not None and self.sides[0].role == "q1"

    def _sides(self, overrides: dict[str, str]) -> list[Argument] | None:
        """The state, the states and perhaps values, by names; None where a candidate takes something else."""
        if self.bundle is not None:
            return [replace(self.bundle, role="q" if part in ("q", "x") else "k") for part in self.bundle.parts]
        rest = [a for a in self.face.arguments if a.required and a not in self.masks]
        if self.function:
            # A v beside matrices is the vector of the score.
            named = [a for a in rest if re.fullmatch(_WEIGHT, a.name.lower().strip("_"))]
            matrices = [a for a in named if not re.fullmatch(r"v|vs|b", a.name.lower())]
            asked = [a for a in rest if overrides.get(a.name) in _INPUTS]
            self.weights = [a for a in named if matrices and a not in asked]
            rest = [a for a in rest if a not in self.weights]
            self.weights += [a for a in rest[2:] if a.role not in _INPUTS]
            rest = [a for a in rest if a not in self.weights]
        if len(rest) < 2:
            rest += [a for a in self.face.arguments if not a.required and a.role in _INPUTS and a not in rest]
        if not 2 <= len(rest) <= 3:
            return None
        first, second = rest[0], rest[1]
        names = [a.name.lower().strip("_") for a in rest]
        if (
            len(rest) == 3
            and re.match(r"enc|mem|annot|src|source", names[2])
            and not any(re.fullmatch(_STATES, n) for n in names[:2])
        ):
            # The embedded token and the state ask together.
            return [replace(a, role=r) for a, r in zip(rest, ("q1", "q2", "k"), strict=True)]
        told = [overrides.get(a.name) for a in (first, second)]
        state, states = ([bool(re.fullmatch(pattern, n)) for n in names[:2]] for pattern in (_STATE, _STATES))
        swapped = told[0] in ("k", "context") or (
            told[0] is None and told[1] is None and states[0] and state[1] and not (state[0] and states[1])
        )
        roles = ("k", "q") if swapped else ("q", "k")
        return [replace(a, role=r) for a, r in zip(rest, (*roles, "k"), strict=False)]

    def judge(self, said: bool) -> bool:
        """Find what explains it; False where it is no such score, unless it was said to be one."""
        self._globals()
        ran = False
        for shapes in _SHAPES:
            best: _Match | None = None
            for setting in self._settings(shapes):
                found = self._explain(setting)
                ran = ran or found is not None
                for match in sorted(found or [], key=lambda m: m.cost)[:1]:
                    # Of two ways to call, the first is the commoner.
                    if best is None or len(match.choice) < len(best.choice):
                        best = match
                if best is not None and not best.choice:
                    break
            if best is not None:
                self._tell(best)
                return True
        if self._linear_in_keys():
            self.findings.add("additive_ignores_keys")
            return True
        if not said:
            # What holds a tanh, or is named after Luong, need not be one of these.
            return False
        if ran:
            self.findings.add(
                "unknown",
                kind="unknown",
                message="These additive scores are wrong, and no known mistake gives their numbers.",
            )
            return True
        if self.error is not None:
            self.findings.raised(None, self.error)
            return True
        raise PuzzledError(
            f"cannot tell how to call {self.face.name}: name its arguments with --argument, "
            "such as --argument s=q --argument h=context"
        )

    def _linear_in_keys(self) -> bool:
        """Whether the state matters and twice the keys give twice the context: weights that never look at the keys."""
        built = None if self.function else self._build()
        if built is None:
            return False
        random = np.random.default_rng(4)
        for shape in (s for shapes in _SHAPES for s in shapes):
            B, T, S = _SIZES.get(shape, (1 if shape in ("1D", "D", "column") else 2, 1, 4))
            q, other = random.normal(size=(2, B, T, WIDTH))
            k, more = random.normal(size=(2, B, S, WIDTH))
            contexts = []
            for state, states in ((q, k), (q, more), (q, k + more), (other, k)):
                masks = next(iter(self._open_masks(shape, B, T, S)))
                found = self._outputs(_Setting(shape, state, states, {}, [], built[0], masks)) or []
                like = [x for y in found if (x := _like(y, np.zeros((B, T, WIDTH)))) is not None]
                if not like:
                    break
                contexts.append(like[0])
            if len(contexts) == 4:
                first, second, both, moved = contexts
                return difference(both, first + second) < LOOSE and difference(moved, first) > LOOSE
        return False

    # What is called.

    def _settings(self, shapes: tuple[str, ...]) -> Iterator[_Setting]:
        """Shapes of queries and keys, with every way to give the weights and the masks that must be given."""
        handle = None
        sources: list[tuple[int, int, list[tuple[dict[str, np.ndarray], list[Reading]]]]] = []
        if self.function:
            for Dq, Dk, A in ((6, 6, 5), (4, 6, 5), (6, 6, 6), (16, 16, 10)):
                random = np.random.default_rng([Dq, Dk, A])
                sources.append((Dq, Dk, list(self._given(random, Dq, Dk, A))))
        else:
            built = self._build()
            if built is None:
                return
            handle, arrays, turnable = built
            for Dq, Dk in widths(arrays):
                found = list(readings(arrays, turnable, Dq, Dk, self.luong))
                if found:
                    sources.append((Dq, Dk, [({}, found)]))
        for Dq, Dk, ways in sources:
            random = np.random.default_rng([Dq, Dk])
            for shape in shapes:
                B, T, S = _SIZES.get(shape, (1 if shape in ("1D", "D", "column") else 2, 1, 4))
                q, k = random.normal(size=(B, T, Dq)), random.normal(size=(B, S, Dk))
                for (given, possible), masks in product(ways, self._open_masks(shape, B, T, S)):
                    yield _Setting(shape, q, k, given, possible, handle, masks)

    def _build(self) -> tuple[int, dict[str, np.ndarray], set[str]] | None:
        """An instance, its arrays as (in, out), and those that may lie the other way round."""
        description = self.face.description
        kwargs: dict[str, Any] = {}
        given: dict[str, np.ndarray] = {}
        if description["kind"] == "class":
            maker = Interface(description, description["constructor"], {})
            made = constructor(maker, length=4, model_dim=WIDTH)
            if isinstance(made, str):
                raise PuzzledError(
                    f"cannot tell what the argument {made} of {self.face.name} is: say it with --argument"
                )
            kwargs, given = made
        first, more = first_call(description)
        reply, arrays = self.session.ask({"op": "build", "kwargs": kwargs, "seed": 1, "first": first}, given | more)
        if "error" in reply:
            self.error = reply["error"]
            return None
        linear = {row["path"] for row in reply["parameters"] if row["owner"] == "Linear"}
        if any(not row["registered"] for row in reply["parameters"]):
            self.findings.add("python_list")
        whole = {p: (a.T if p in linear and a.ndim == 2 else a) for p, a in arrays.items()}
        return reply["handle"], whole, set(arrays) - linear

    def _given(
        self, random: np.random.Generator, Dq: int, Dk: int, A: int
    ) -> Iterator[tuple[dict[str, np.ndarray], list[Reading]]]:
        """Arrays for the arguments that are weights, in every orientation, and what they are."""
        if not self.weights:
            names = [n for n in self.face.description["globals"] if n not in self.names]
            arrays = self.session.ask({"op": "globals", "names": names})[1] if names else {}
            yield {}, list(readings(arrays, set(arrays), Dq, Dk, self.luong))
            return
        last = [a for a in self.weights if self.luong and re.fullmatch(_VECTOR, a.name.lower())][-1:]
        biases = [a for a in self.weights if re.match(r"b|.*bias", a.name.lower())]
        rest = [a for a in self.weights if a not in last and a not in biases]
        wq, wk, wv = random.normal(size=(Dq, A)), random.normal(size=(Dk, A)), random.normal(size=(A, 1))
        m, c, b = random.normal(size=(Dq, Dk)), random.normal(size=(Dq + Dk, A)), random.normal(size=A)
        vector = (c, 0.0) if last else None
        more = dict.fromkeys((a.name for a in biases), b)
        added: np.ndarray | float = b if biases else 0.0
        for turned in (False, True):

            def way(w: np.ndarray, turned: bool = turned) -> np.ndarray:
                return w.T if turned else w

            end = {a.name: way(c) for a in last} | more
            if len(rest) < 2 and self.luong:
                given = {a.name: way(m) for a in rest}
                if rest or Dq == Dk:
                    yield given | end, [Reading("product", q=m if rest else None, vector=vector)]
            elif len(rest) in (2, 3):
                v = next((a for a in rest if re.match(r"v", a.name.lower())), rest[-1])
                others = sorted(
                    (a for a in rest if a is not v),
                    key=lambda a: 1 if re.search(r"k|u|h|enc|2", a.name.lower()) else 0,
                )
                for shaped in (wv[:, 0], wv, wv.T):
                    if len(others) == 2:
                        for order in (others, others[::-1]):
                            given = {order[0].name: way(wq), order[1].name: way(wk), v.name: shaped}
                            yield given | end, [Reading("additive", wq, wk, wv, b=added, vector=vector)]
                    else:
                        both = (Reading("additive", c[:Dq], c[Dq:], wv, b=added, vector=vector),
                                Reading("additive", c[Dk:], c[:Dk], wv, b=added, vector=vector))  # fmt: skip
                        yield {others[0].name: way(c), v.name: shaped} | end, list(both)

    def _open_masks(self, shape: str, B: int, T: int, S: int) -> list[dict[str, Any]]:
        """Every way to give the masks that must be given so that they hide nothing."""
        required = [a for a in self.masks if a.required]
        ways: list[dict[str, Any]] = [{}]
        for a in required:
            if a.role == "lengths":
                made: list[Any] = [np.full(B, S)]
            else:
                seen = np.ones((B, S), bool)
                made = [
                    x
                    for laid in _laid(seen, shape, T)
                    for x in ((laid, laid.astype(float)) if self._declared(a) != "drop" else ())
                ] + [
                    x
                    for laid in _laid(~seen, shape, T)
                    for x in ((laid, laid.astype(float)) if self._declared(a) != "keep" else ())
                ]
            ways = [{**way, a.name: x} for way in ways for x in made]
        return ways

    def _declared(self, argument: Argument) -> str | None:
        return self.face.declared_mask(argument.role)

    def _shaped(self, x: np.ndarray, shape: str, query: bool) -> np.ndarray:
        first = x.swapaxes(0, 1)
        table = {
            "pairs": x, "square": x, "BD": x[:, 0] if query else x, "B1D": x, "1BD": first, "TD": x[0],
            "BD-SBD": x[:, 0] if query else first, "1BD-BSD": first if query else x,
            "1D": x[0], "D": x[0, 0] if query else x[0], "column": x[0].T if query else x[0],
        }  # fmt: skip
        return table[shape]

    def _outputs(self, setting: _Setting) -> list[np.ndarray] | None:
        """What the candidate returns; None where it raises."""
        assert self.sides is not None
        half = setting.q.shape[-1] // 2
        arrays = {
            "q": self._shaped(setting.q, setting.shape, True),
            "q1": self._shaped(setting.q[..., :half], setting.shape, True),
            "q2": self._shaped(setting.q[..., half:], setting.shape, True),
            "k": self._shaped(setting.k, setting.shape, False),
            **setting.given,
            **setting.masks,
        }
        specs: dict[str, Any] = {a.name: {"array": str(a.role)} for a in self.sides}
        if self.bundle is not None:
            specs = {self.bundle.name: {"list": [{"array": str(a.role)} for a in self.sides]}}
        specs |= {name: {"array": name} for name in (*setting.given, *setting.masks)}
        description = self.face.description
        call: dict[str, Any] = {
            "args": [],
            "kwargs": specs,
            "backend": description["backend"],
            "still": True,
            "train": False,
        }
        if setting.handle is not None:
            call["method"] = description["method"]
        if self.names:
            call["globals"] = {name: specs[argument] for name, argument in self.names.items()}
        reply, found = self.session.ask({"op": "call", "handle": setting.handle, "calls": [call]}, arrays)
        first = reply["replies"][0] if "replies" in reply else reply
        if "error" in first:
            self.error = self.error or first["error"]
            return None
        return [found[o["key"]] for o in first["outputs"]]

    def _globals(self) -> None:
        """Globals read instead of arguments."""
        from overt.check.probes import unread

        unused = unread(self.face.description["source"])
        for name in self.face.description["globals"]:
            for a in self.sides or ():
                if a.name in unused and (name.startswith(a.name[:3]) or a.name.startswith(name[:3])):
                    self.names[name] = a.name
                    self.findings.add(
                        "global_read", kind="mistake", look=rf"\b{name}\b", mend=f"Use {a.name} in the body.",
                        message=f"It never reads its argument {a.name} and reads the global {name} instead.",
                    )  # fmt: skip

    # What it should return.

    def _explain(self, setting: _Setting) -> list[_Match] | None:
        """What explains the outputs of one setting; None where nothing has the shape of one."""
        outputs = self._outputs(setting)
        if outputs is None:
            return None
        matches, fitted = [], False
        for reading in setting.readings:
            for how, option in product(_ADDITIVE if reading.kind != "product" else (None,), _SOFTMAX):
                choice = {"score": how} if how else {}
                choice |= {"softmax": option} if option else {}
                try:
                    scores = self._scores(setting, reading, how)
                    if scores is None:
                        continue
                    fit, more = self._compare(outputs, setting, reading, _weigh(setting, scores, choice))
                except ValueError:
                    # A bias of another width: this is no reading of these arrays.
                    continue
                fitted |= fit
                if more is not None:
                    matches.append(_Match(setting, reading, {**choice, **more}))
        return matches if fitted else None

    def _scores(self, setting: _Setting, reading: Reading, how: str | None) -> np.ndarray | None:
        """Scores (B, T, S) of a reading; None where the mistake cannot be made with it."""
        q, k = setting.q, setting.k
        with np.errstate(all="ignore"):
            if reading.kind == "direct":
                assert reading.q is not None
                if how != "additive_ignores_keys":
                    return None
                return np.broadcast_to(q @ reading.q + reading.b, (*q.shape[:2], k.shape[1]))
            if reading.kind == "product":
                left = q if reading.q is None else q @ reading.q + reading.b
                right = k if reading.k is None else k @ reading.k + reading.c
                return reading.scale * (left @ right.swapaxes(1, 2))
            assert reading.q is not None
            assert reading.k is not None
            assert reading.v is not None
            wq, wk = (q @ reading.q)[:, :, None], (k @ reading.k)[:, None]
            if how == "additive_ignores_keys":
                wk = np.zeros_like(wk)
            if how and how.startswith("additive_no_pairwise"):
                if q.shape[1] != k.shape[1]:
                    return None
                wq = wq.swapaxes(1, 2)
            if how == "additive_no_pairwise:one row" and not re.search(
                r"n_?q|q_?len|\btq|\blq|num_queries|queries \(|query_len|tgt_len|t_q|l_q", self.face.prose
            ):
                # Several queries may not be meant at all.
                return None
            inner = wq + wk + reading.b
            if how == "additive_no_pairwise":
                inner = np.broadcast_to(inner, (len(q), q.shape[1], *inner.shape[2:]))
            return ((inner if how == "additive_no_tanh" else np.tanh(inner)) @ reading.v)[..., 0] + reading.c

    def _compare(
        self, outputs: list[np.ndarray], setting: _Setting, reading: Reading, parts: Parts
    ) -> tuple[bool, dict[str, str] | None]:
        """Whether an output has the shape of what is expected; and, where the numbers agree too, further mistakes."""
        context, weights = parts.output[:, 0], parts.weights[:, 0]
        expected: list[tuple[np.ndarray, dict[str, str]]] = []
        if reading.vector is not None:
            w, b = reading.vector
            q = np.broadcast_to(setting.q, (*context.shape[:2], setting.q.shape[-1]))
            for joined in (np.concatenate([context, q], -1), np.concatenate([q, context], -1)):
                expected.append((np.tanh(joined @ w + b), {}))
                expected.append((joined @ w + b, {"vector": "luong_no_tanh_out"} if self.luong else {}))
        fitted = False
        if self.two_ask:
            # What is made of the context then is more than attention.
            expected, context = [], np.zeros(0)
        for one, more in [*expected, (context, {}), (weights, {})]:
            mine = [x for y in outputs if (x := _like(y, one)) is not None]
            if mine and difference(mine[0], one.squeeze()) < LOOSE:
                return True, more
            fitted = fitted or bool(mine)
            if mine and one is context:
                # Weights that are right do not make a context right.
                break
        return fitted, None

    # What is told.

    def _tell(self, match: _Match) -> None:
        setting, convention = match.setting, self.findings.convention
        convention["score"] = "additive" if match.reading.kind != "product" else "Luong's product"
        convention["shapes"] = (
            f"queries {self._shaped(setting.q, setting.shape, True).shape}, "
            f"keys {self._shaped(setting.k, setting.shape, False).shape}"
        )
        for option in match.choice.values():
            self.findings.add(name_of(option))
        outputs = self._outputs(setting) or []
        scores = self._scores(setting, match.reading, match.choice.get("score"))
        assert scores is not None
        weights = _weigh(setting, scores, match.choice).weights[:, 0]
        for y in outputs[1:]:
            seen = _like(y, weights)
            if seen is not None and difference(seen, weights.squeeze()) > LOOSE:
                if difference(seen, scores.squeeze()) < LOOSE:
                    self.findings.add("returns_scores")
                break
        if match.reading.kind == "product" and not any(
            "softmax" in o or o == "no_exp_norm" for o in match.choice.values()
        ):
            loud = self._outputs(replace(setting, q=900 * setting.q))
            if loud and not all(np.isfinite(y).all() for y in loud):
                self.findings.add("no_max", example={"input": "scores of some hundreds", "actual": "nan"})
        for argument in self.masks:
            if argument.role != "query_mask":
                self._tell_mask(argument, match)

    def _tell_mask(self, argument: Argument, match: _Match) -> None:
        """Try a mask in every shape and meaning, and tell which it is, or what is wrong with it."""
        setting = match.setting
        B, T, S = len(setting.q), setting.q.shape[1], setting.k.shape[1]
        lengths = np.array([3, 2][:B])
        declared = "keep" if argument.role == "lengths" else self._declared(argument)
        ran = False
        best: tuple[tuple[int, int], str | None, str] | None = None
        for kind in (declared,) if declared else ("keep", "drop", "additive"):
            keep = np.arange(S) < lengths[:, None]
            if argument.role == "lengths":
                ways = [lengths]
            else:
                keep = np.array([[True, False, True, True], [True, True, False, True]])[:B]
                shown = ~keep if kind == "drop" else keep
                ways = [x for laid in _laid(shown, setting.shape, T) for x in (laid, laid.astype(float))]
                if kind == "additive":
                    ways = [np.where(x > 0, 0.0, -1e9) for x in ways]
            for given in ways:
                masked = replace(
                    setting, masks={**setting.masks, argument.name: given}, keep=keep, additive=kind == "additive"
                )
                outputs = self._outputs(masked)
                if outputs is None:
                    continue
                scores = self._scores(masked, match.reading, match.choice.get("score"))
                assert scores is not None
                case = _case(masked, scores)
                for option in (None, *options(case, "mask")):
                    choice = match.choice | ({"mask": option} if option else {})
                    fit, more = self._compare(outputs, masked, match.reading, attend(case, choice))
                    ran |= fit
                    if more is not None and all(o in match.choice.values() for o in more.values()):
                        cost = (len(choice), rank(choice))
                        if best is None or cost < best[0]:
                            best = (cost, option, str(kind))
            if best is not None and best[1] is None:
                break
        if best is None:
            if ran:
                self.findings.add(
                    "unknown", kind="unknown",
                    message=f"With {argument.name} it is wrong, and no known mistake gives its numbers.",
                )  # fmt: skip
            return
        if best[1] is not None:
            self.findings.add(name_of(best[1]))
        meaning = {"keep": "True = may attend", "drop": "True = may not attend", "additive": "added to the scores"}
        self.findings.convention[argument.name] = "lengths" if argument.role == "lengths" else meaning[best[2]]


def _laid(seen: np.ndarray, shape: str, T: int) -> list[np.ndarray]:
    """A mask (B, S) in the shapes in which it may be given."""
    if shape in ("TD", "1D", "D", "column"):
        return [seen[0], seen]
    wide = np.broadcast_to(seen[:, None], (len(seen), T, seen.shape[1]))
    return [seen, seen[:, None], seen[..., None], seen.T] + ([wide] if T > 1 else [])


def _case(setting: _Setting, scores: np.ndarray) -> Case:
    """The softmax, the mask and the sum over keys of scores (B, T, S), as attention of one head."""
    B, T, S = scores.shape
    keep = None if setting.keep is None else setting.keep[:, None, None]
    nothing = np.zeros((B, 1, S, 1))
    return Case(
        np.zeros((B, 1, T, 1)), nothing, setting.k[:, None], 1, 1,
        keep=keep, bias=scores[:, None], additive=setting.additive,
    )  # fmt: skip


def _weigh(setting: _Setting, scores: np.ndarray, choice: Mapping[str, str]) -> Parts:
    return attend(_case(setting, scores), choice)


def _like(y: np.ndarray, expected: np.ndarray) -> np.ndarray | None:
    """An output without its axes of 1 in the order of (B, T, …), where it fits."""
    if y.size != expected.size or not y.size:
        return None
    bare = y.squeeze()
    if bare.shape == expected.squeeze().shape:
        return bare
    return bare.swapaxes(0, 1) if bare.shape == expected.swapaxes(0, 1).squeeze().shape and bare.ndim > 1 else None


def _vector_alone(session: Session | Here, face: Interface, findings: Findings, name: str) -> bool:
    """tanh(W [c; h]) of Luong as a function of context, state and matrix."""
    if not re.search(r"attentional|vector|combine|output|luong_(h|out)", name) or len(face.arguments) < 3:
        return False
    random = np.random.default_rng(0)
    D, A = 6, 5
    c, h, w = random.normal(size=(2, D)), random.normal(size=(2, D)), random.normal(size=(2 * D, A))
    block = Block(session, face, findings)
    for given in (w, w.T):
        got = block.call(c, h, given)
        if got and got[0].shape == (2, A):
            for joined in (np.concatenate([c, h], -1), np.concatenate([h, c], -1)):
                if difference(got[0], np.tanh(joined @ w)) < LOOSE:
                    return True
                if difference(got[0], joined @ w) < LOOSE:
                    findings.add("luong_no_tanh_out")
                    return True
    return False
