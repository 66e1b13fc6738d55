"""Additive scores (Bahdanau), and the attentional vector of Luong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np

from overt.check.attention import difference
from overt.check.diagnosis import PuzzledError
from overt.check.findings import Findings
from overt.check.instances import constructor, first_call
from overt.check.interface import Interface
from overt.check.search import LOOSE
from overt.check.session import Here, Session
from overt.check.steps import STEPS, softmax

_SOFTMAX: tuple[str | None, ...] = (
    None,
    *(o for o in STEPS["softmax"] if o in ("softmax_axis_head_or_batch:batch",) or "head" not in o),
)
_SCORES = (None, "additive_no_tanh", "additive_ignores_keys", "additive_no_pairwise", "additive_no_pairwise:one row")


def check(session: Session | Here, face: Interface, findings: Findings, overrides: dict[str, str]) -> bool:
    """Check a candidate whose score is additive; False where it is none."""
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", face.name).lower()
    if re.search(r"luong|attentional_vector|global_attention", name + face.prose) and _attentional(
        session, face, findings, name
    ):
        return True
    said = re.search(r"additive(?!_mask| mask)|bahdanau|concat_?att|attn_?concat|mlp_?att", name) or re.search(
        r"\badditive (att|score)|bahdanau|v\W{1,4}(\*|·|\.)?\s*tanh", face.prose
    )
    code = face.code
    structure = "tanh" in code and not re.search(r"cap\b|softcap|gelu", code)
    weights = [
        a
        for a in face.arguments
        if a.required and a.role not in ("q", "k", "v", "x", "context", "mask", "padding", "lengths")
    ]
    if face.description["kind"] == "function" and "tanh" not in code and not weights:
        return False
    if not said and not (structure and (face.has("context") or face.description["kind"] != "function")):
        return False
    return _Additive(session, face, findings).judge(bool(said))


class _Additive:
    """Calls in a few shapes, and the ways to read the weights."""

    def __init__(self, session: Session | Here, face: Interface, findings: Findings) -> None:
        self.session, self.face, self.findings = session, face, findings
        self.function = face.description["kind"] == "function"
        self.error: dict[str, Any] | None = None
        self.names: dict[str, str] = {}

    def judge(self, said: bool) -> bool:
        """Find what explains it; False where it is no such score, unless it was said to be one."""
        face = self.face
        inputs = [a for a in face.arguments if a.role in ("q", "k", "v", "x", "context")]
        if self.function and sum(a.required for a in face.arguments) - len(inputs) >= 1 and len(inputs) > 2:
            # The vector of the score, and not the values.
            inputs = [a for a in inputs if not re.fullmatch(r"v(_?a|_?att|ec)?|[wu]\w?", a.name.lower())]
        self.bundle = next((a for a in face.arguments if a.parts), None)
        if self.bundle is not None:
            inputs = [replace(self.bundle, role=part) for part in self.bundle.parts]
        if len(inputs) < 2:
            return False
        self.inputs = inputs
        self._globals()
        any_output = False
        for setting in self._settings():
            matches = self._matches(setting)
            if matches is None:
                continue
            any_output = True
            if matches:
                self._tell(min(matches, key=len), setting)
                return True
        if not said and self.bundle is not None:
            # A layer with several scores need not use this one.
            return False
        if any_output:
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
            f"cannot tell how to call {face.name}: name its arguments with --argument, "
            "such as --argument s=q --argument h=context"
        )

    def _settings(self) -> Iterator[dict[str, Any]]:
        """Shapes of queries and keys with weights or an instance; each with the outputs of one or two calls."""
        widths = [(6, 6, 5), (4, 6, 5), (6, 6, 6), (16, 16, 10)]
        for Dq, Dk, A in widths if self.function else [(12, 12, 5)]:
            instance = None if self.function else self._build()
            if not self.function and instance is None:
                return
            for shape in ("pairs", "square", "BD", "B1D", "1BD", "TD", "1D", "D", "column"):
                random = np.random.default_rng([Dq, Dk, A])
                B, T, S = {
                    "1D": (1, 1, 4),
                    "D": (1, 1, 4),
                    "column": (1, 1, 4),
                    "TD": (1, 3, 4),
                    "pairs": (2, 3, 4),
                    "square": (2, 4, 4),
                }.get(shape, (2, 1, 4))
                weights = self._weights(random, Dq, Dk, A) if self.function else [({}, instance[1])]  # type: ignore[index]
                for given, named in weights:
                    yield {
                        "shape": shape, "q": random.normal(size=(B, T, Dq)), "k": random.normal(size=(B, S, Dk)),
                        "given": given, "named": named, "handle": instance[0] if instance else None,
                    }  # fmt: skip

    def _build(self) -> tuple[int, dict[str, np.ndarray]] | None:
        description = self.face.description
        kwargs: dict[str, Any] = {}
        given: dict[str, np.ndarray] = {}
        if description["kind"] == "class":
            maker = Interface(description, description["constructor"], {})
            made = constructor(maker, length=4, model_dim=12)
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
        linear = {row["path"]: row["owner"] == "Linear" for row in reply["parameters"]}
        if any(not row["registered"] for row in reply["parameters"]):
            self.findings.add("python_list")
        return reply["handle"], {p: (a.T if linear.get(p) and a.ndim == 2 else a) for p, a in arrays.items()}

    def _weights(
        self, random: np.random.Generator, Dq: int, Dk: int, A: int
    ) -> Iterator[tuple[dict[str, np.ndarray], dict[str, np.ndarray]]]:
        """Arrays for the arguments that are weights, in every orientation; and the same as (in, out)."""
        rest = [
            a
            for a in self.face.arguments
            if a not in self.inputs and a.required and a.role not in ("mask", "padding", "lengths")
        ]
        if len(rest) == 3:
            v = rest[2] if not re.match(r"v", rest[0].name.lower()) else rest[0]
            matrices = [a for a in rest if a is not v]
            by_name = sorted(matrices, key=lambda a: 1 if re.search(r"k|u|h|enc|2", a.name.lower()) else 0)
            wq, wk, wv = random.normal(size=(Dq, A)), random.normal(size=(Dk, A)), random.normal(size=(A, 1))
            for order in (by_name, by_name[::-1]):
                for turned, column in product((False, True), (0, 1, 2)):
                    shaped = (wv[:, 0], wv, wv.T)[column]
                    given = {
                        order[0].name: wq.T if turned else wq,
                        order[1].name: wk.T if turned else wk,
                        v.name: shaped,
                    }
                    yield given, {"q": wq, "k": wk, "v": wv}
        elif len(rest) == 2:
            for first in ("q", "k"):
                whole, wv = random.normal(size=(Dq + Dk, A)), random.normal(size=(A, 1))
                wq, wk = (whole[:Dq], whole[Dq:]) if first == "q" else (whole[Dk:], whole[:Dk])
                for turned, column in product((False, True), (0, 1, 2)):
                    shaped = (wv, wv[:, 0], wv.T)[column]
                    yield (
                        {rest[0].name: whole.T if turned else whole, rest[1].name: shaped},
                        {"q": wq, "k": wk, "v": wv},
                    )
        elif len(rest) == 0:
            names = [n for n in self.face.description["globals"] if n not in self.names]
            yield {}, self.session.ask({"op": "globals", "names": names})[1] if names else {}

    def _shaped(self, x: np.ndarray, shape: str, query: bool) -> np.ndarray:
        table = {
            "pairs": x, "square": x, "BD": x[:, 0] if query else x, "B1D": x, "1BD": x.swapaxes(0, 1), "TD": x[0],
            "1D": x[0], "D": x[0, 0] if query else x[0], "column": x[0].T if query else x[0],
        }  # fmt: skip
        return table[shape]

    def _matches(self, setting: dict[str, Any]) -> list[tuple[str, ...]] | None:
        """What explains the outputs of one setting; None where it does not run."""
        arrays = {
            "q": self._shaped(setting["q"], setting["shape"], True),
            "k": self._shaped(setting["k"], setting["shape"], False),
        }
        arrays |= setting["given"]
        specs: dict[str, Any] = {}
        for number, a in enumerate(self.inputs):
            if number > 1 and not a.required and a.role not in ("v",):
                continue
            query = a.role in ("q", "x") if {"q", "x"} & {i.role for i in self.inputs} else number == 0
            specs[a.name] = {"array": "q" if query else "k"}
        if self.bundle is not None:
            specs = {self.bundle.name: {"list": [{"array": "q" if a.role in ("q", "x") else "k"} for a in self.inputs]}}
        specs |= {name: {"array": name} for name in setting["given"]}
        description = self.face.description
        call: dict[str, Any] = {
            "args": [],
            "kwargs": specs,
            "backend": description["backend"],
            "still": True,
            "train": False,
        }
        if setting["handle"] is not None:
            call["method"] = description["method"]
        if self.names:
            call["globals"] = {name: specs[argument] for name, argument in self.names.items()}
        reply, found = self.session.ask({"op": "call", "handle": setting["handle"], "calls": [call]}, arrays)
        first = reply["replies"][0] if "replies" in reply else reply
        if "error" in first:
            self.error = self.error or first["error"]
            return None
        outputs = [found[o["key"]] for o in first["outputs"]]
        matches, fitted = [], False
        for named in self._readings(setting["named"], setting["q"].shape[-1], setting["k"].shape[-1]):
            for how, option in product(_SCORES, _SOFTMAX):
                expected = self._expected(setting, named, how, option)
                if expected is None:
                    continue
                fit, right = self._compare(outputs, *expected)
                fitted |= fit
                if right:
                    matches.append(tuple(o for o in (how, option) if o))
        return matches if fitted else None

    def _globals(self) -> None:
        """Globals read instead of arguments."""
        from overt.check.probes import unread

        unused = unread(self.face.description["source"])
        for name in self.face.description["globals"]:
            for a in self.inputs:
                if a.name in unused and (name.startswith(a.name[:3]) or a.name.startswith(name[:3])):
                    self.names[name] = a.name
                    self.findings.add(
                        "global_read", kind="mistake", look=rf"\b{name}\b", mend=f"Use {a.name} in the body.",
                        message=f"It never reads its argument {a.name} and reads the global {name} instead.",
                    )  # fmt: skip

    def _readings(self, named: dict[str, np.ndarray], Dq: int, Dk: int) -> Iterator[dict[str, np.ndarray]]:
        """Assignments of an instance's arrays to W, U and v."""
        if not named or set(named) <= {"q", "k", "v"}:
            if named:
                yield named
            return
        matrices = {p: a for p, a in named.items() if a.ndim == 2}
        vectors = {p: a for p, a in named.items() if a.ndim == 1}

        def bias(path: str) -> np.ndarray | float:
            return (
                vectors.get(re.sub(r"(weight|kernel)$", "bias", path), 0.0)
                if path.endswith(("weight", "kernel"))
                else 0.0
            )

        lasts: list[tuple[np.ndarray, str]] = [(a, p) for p, a in matrices.items() if a.shape[1] == 1]
        lasts += [(a.T, p) for p, a in matrices.items() if a.shape[0] == 1]
        lasts += [(a[:, None], p) for p, a in vectors.items() if not p.endswith("bias")]
        squares = {p: a for p, a in matrices.items() if 1 not in a.shape}
        if not matrices:
            # No projections: the sum of the query and the key itself.
            yield from ({"q": np.eye(Dq), "k": np.eye(Dk), "v": v} for v, _ in lasts if len(v) == Dq == Dk)
        for v, vp in lasts:
            for a, b in permutations(squares, 2):
                for wq, wk in product((squares[a], squares[a].T), (squares[b], squares[b].T)):
                    if wq.shape == (Dq, v.shape[0]) and wk.shape == (Dk, v.shape[0]):
                        yield {"q": wq, "k": wk, "v": v, "b": np.asarray(bias(a) + bias(b)), "c": np.asarray(bias(vp))}
            for p, whole in squares.items():
                if whole.shape == (Dq + Dk, v.shape[0]):
                    for wq, wk in ((whole[:Dq], whole[Dq:]), (whole[Dk:], whole[:Dk])):
                        yield {"q": wq, "k": wk, "v": v, "b": np.asarray(bias(p)), "c": np.asarray(bias(vp))}
        for p, whole in squares.items():
            # Weights from the query alone, as many as there are keys.
            if whole.shape[1] == 4 and whole.shape[0] == Dq:
                yield {"direct": whole, "b": np.asarray(bias(p))}

    def _expected(
        self, setting: dict[str, Any], named: dict[str, np.ndarray], how: str | None, option: str | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Scores and weights (B, T, S) and output (B, T, Dk)."""
        q, k = setting["q"], setting["k"]
        with np.errstate(all="ignore"):
            if "direct" in named:
                if how != "additive_ignores_keys" or named["direct"].shape[0] != q.shape[-1]:
                    return None
                scores = np.broadcast_to(q @ named["direct"] + named["b"], (*q.shape[:2], k.shape[1]))
            else:
                if q.shape[-1] != named["q"].shape[0] or k.shape[-1] != named["k"].shape[0]:
                    return None
                bias = named.get("b", np.zeros(1))
                wq, wk = (q @ named["q"])[:, :, None], (k @ named["k"])[:, None]
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
                inner = wq + wk + bias
                if how == "additive_no_pairwise":
                    inner = np.broadcast_to(inner, (len(q), q.shape[1], *inner.shape[2:]))
                scores = ((inner if how == "additive_no_tanh" else np.tanh(inner)) @ named["v"])[..., 0] + named.get(
                    "c", np.zeros(1)
                )
            weights = softmax(scores[:, None], option)[:, 0]
        return scores, weights, weights @ k

    def _compare(
        self, outputs: list[np.ndarray], scores: np.ndarray, weights: np.ndarray, output: np.ndarray
    ) -> tuple[bool, bool]:
        """Whether an output has the shape of a context (or of weights), and whether the numbers agree."""
        for expected in (output, weights):
            for y in outputs:
                if (
                    y.size == expected.size
                    and y.size
                    and y.squeeze().shape in (expected.squeeze().shape, expected.swapaxes(0, 1).squeeze().shape)
                ):
                    shaped = (
                        y.squeeze() if y.squeeze().shape == expected.squeeze().shape else y.squeeze().swapaxes(0, 1)
                    )
                    return True, difference(shaped, expected.squeeze()) < LOOSE
        return False, False

    def _tell(self, mistakes: tuple[str, ...], setting: dict[str, Any]) -> None:
        self.findings.convention["score"] = "additive"
        self.findings.convention["shapes"] = (
            f"queries {self._shaped(setting['q'], setting['shape'], True).shape}, "
            f"keys {self._shaped(setting['k'], setting['shape'], False).shape}"
        )
        for name in mistakes:
            self.findings.add(name.partition(":")[0])


def _attentional(session: Session | Here, face: Interface, findings: Findings, name: str) -> bool:
    """tanh(W [c; h]) of Luong: a class with one such matrix, or a function of context and state."""
    from overt.check.block import Block

    random = np.random.default_rng(0)
    if face.description["kind"] == "function":
        if not re.search(r"attentional|vector|combine|output|luong_(h|out)", name) or len(face.arguments) < 3:
            return False
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
    built = _Additive(session, face, findings)._build()
    if built is None:
        return False
    handle, arrays = built
    wide = {
        p: a
        for p, a in arrays.items()
        if (a.ndim == 2 and a.shape[0] == 2 * a.shape[1]) or (a.ndim == 2 and a.shape == (24, 12))
    }
    if not wide:
        return False
    path, w = next(iter(wide.items()))
    b = arrays.get(re.sub(r"weight$", "bias", path), np.zeros(w.shape[1]))
    square = {p: a for p, a in arrays.items() if a.shape == (12, 12)}
    block = Block(session, face, findings, handle)
    for T in (1, 3):
        q, k = random.normal(size=(2, T, 12)), random.normal(size=(2, 4, 12))
        for given, keys in ((q, k), (q[:, 0], k), (q.swapaxes(0, 1), k.swapaxes(0, 1))):
            got = block.call(given, keys)
            if not got:
                continue
            for general in (None, *square.values()):
                for left in (q if general is None else q @ general, q if general is None else q @ general.T):
                    raw = left @ k.swapaxes(1, 2)
                    for scale in (1.0, 12**-0.5):
                        context = softmax((raw * scale)[:, None], None)[:, 0] @ k
                        for joined in (np.concatenate([context, q], -1), np.concatenate([q, context], -1)):
                            expected = joined @ w + b
                            for y in got:
                                if y.size != expected.size:
                                    continue
                                shaped = (y.swapaxes(0, 1) if given.ndim == 3 and given.shape[0] != 2 else y).reshape(
                                    expected.shape
                                )
                                if difference(shaped, np.tanh(expected)) < LOOSE:
                                    findings.convention["score"] = "Luong"
                                    return True
                                if difference(shaped, expected) < LOOSE:
                                    findings.add("luong_no_tanh_out")
                                    return True
    return False
