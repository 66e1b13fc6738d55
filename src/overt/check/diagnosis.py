"""Which known mistakes reproduce a candidate that attends: stage by stage, each adding one feature to the problem."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from overt.check import layouts
from overt.check.attention import CUBE, SQUARE, WIDE, Form, Instance, Outcome, Size, difference
from overt.check.calling import Calling, distinct
from overt.check.forms import SHAPES
from overt.check.instances import build
from overt.check.interface import Interface, thrown_away
from overt.check.mistakes import name_of, rank
from overt.check.search import LOOSE, Match, Trial, explain, fit
from overt.check.steps import Case, Parts

_MASKS = {
    "keep": "True = may attend",
    "drop": "True = may not attend",
    "additive": "added to the scores",
}
_SHAPE_NAMES = {
    "B1TS": "(B, 1, T, S)",
    "BTS": "(B, T, S)",
    "TS": "(T, S)",
    "1TS": "(1, T, S)",
    "FTS": "(B·H, T, S)",
    "BS": "(B, S)",
    "B11S": "(B, 1, 1, S)",
    "B1S": "(B, 1, S)",
    "S": "(S,)",
    "lengths": "lengths (B,)",
}


class Diagnosis(Calling):
    """The stages after the first: masks, causality, windows, softcaps, groups, and what is returned beside."""

    # the constructor, where another instance can be made
    rebuild: Interface | None = None
    # what was found with a causal mask
    causal_choice: dict[str, str] | None = None

    def features(self) -> None:
        """Masks, causal, window, softcap, grouped queries; whatever the candidate has."""
        for role in ("mask", "padding", "lengths"):
            if self.interface.has(role) and self.form.layout != "D":
                self._mask_stage(role)
        if self.interface.has("causal"):
            self._causal_stage()
        elif self.attention.instance is not None and self.rebuild is not None and self._takes("causal"):
            self._rebuilt("causal", True)
        if self.interface.has("window"):
            self._window_stage()
        if self.interface.has("cap"):
            self._cap_stage()
        self._group_stage()
        if "pad_on_query" in self.findings.found:
            self.findings.found.pop("cross_wrong_length", None)

    def _takes(self, wanted: str) -> bool:
        from overt.check.instances import _constructor_role

        return self.rebuild is not None and any(_constructor_role(a.name) == wanted for a in self.rebuild.arguments)

    def _sizes(self) -> tuple[Size, ...]:
        if "transpose" in self.choices[0]:
            return (CUBE,)
        return (SQUARE, WIDE) if self.wide else (SQUARE,)

    def _declared(self, role: str) -> str | None:
        return self.asked_mask or self.interface.declared_mask(role)

    def _mask_stage(self, role: str) -> None:
        declared = self._declared(role) if role != "lengths" else "keep"
        kinds = [declared] if declared else ["keep", "drop", "additive"]
        if not declared and (self.interface.boolean_mask or role == "padding"):
            kinds = ["keep", "drop"]
        numbers = (False, True)
        forms = [
            replace(self.form, mask_kind=kind, mask_shape=shape, mask_number=number, masked=role)
            for shape in SHAPES[role]
            for kind in kinds
            for number in numbers
        ]
        if role == "lengths":
            forms = forms[:1]
        trials = self.attempt(forms, self._sizes(), masked=True)
        failed = None
        for shape in SHAPES[role]:
            mine = {f: t for f, t in trials.items() if f.mask_shape == shape and any(self.fits(f, one) for one in t)}
            if not mine:
                continue
            found = []
            for form, one in mine.items():
                mine_found = self._explain_mask(form, one)
                if form.mask_kind == "additive" and mine_found and not declared and not self._adds(form):
                    continue
                found += mine_found
            if found:
                lost = thrown_away(self.interface.description["source"])
                found.sort(
                    key=lambda m: (
                        m.cost,
                        rank(m.choice),
                        # Where rows of padding come out as zeros, the mask is there.
                        m.choice.get("mask") == "not_inplace" and not lost,
                        m.error > LOOSE / 100,
                    )
                )
                best = [m for m in found if m.cost == found[0].cost]
                self._tell_mask(role, best, list(mine), declared)
                return
            failed = failed or (next(iter(mine)), next(iter(mine.values())))
        if failed is not None:
            self.findings.unknown(self, failed[1], "with a mask", form=failed[0])
        elif trials:
            error = next(iter(trials.values()))[0].outcome.error
            if error is not None:
                self.findings.convention[role] = (
                    f"not tried: every shape raised ({error['type']}: {error['message'][:60]})"
                )

    def _explain_mask(self, form: Form, trials: list[Trial]) -> list[Match]:
        """Where the softmax is wrong, the number that fills hidden scores shows."""
        fills = (
            (-np.inf, -1e9, -1e10, -1e20, -1e30, -1e8, -1e6, -1e5, -1e4) if "softmax" in self.choices[0] else (-np.inf,)
        )
        for most, fill in product((0, 1), fills):
            filled = [Trial(replace(t.case, fill=fill), t.outcome) for t in trials]
            found = explain(self.attention, form, filled, start=self.choices, steps=("mask", "cap"), most=most)
            if found:
                # A cap that comes last looks like a mask that hides too little.
                return [m for m in found if "cap" in m.choice] or found
        return []

    def _adds(self, form: Form) -> bool:
        """Whether a mask of any numbers is added to the scores."""
        case = self.attention.case(form, SQUARE, **self.attention.mask(form, SQUARE))
        bias = np.random.default_rng(9).normal(size=(1, 1, 1, case.k.shape[-2]))
        case = replace(case, bias=np.broadcast_to(bias, (len(case.q), 1, case.q.shape[-2], case.k.shape[-2])))
        outcome = self.attention.one(form, case)
        return any(fit(self.attention, form, [Trial(case, outcome)], choice) is not None for choice in self.choices)

    def _tell_mask(self, role: str, found: list[Match], tried: list[Form], declared: str | None) -> None:
        best = found[0]
        form = best.form
        self.masked[role] = form
        option = best.choice.get("mask")
        name = self.interface.by_role[role].name
        told = _MASKS[form.mask_kind] if role != "lengths" else "lengths"
        self.findings.convention[name] = f"{told}, {_SHAPE_NAMES[form.mask_shape]}" if role != "lengths" else told
        if option is not None:
            also = tuple(sorted({name_of(m.choice["mask"]) for m in found if "mask" in m.choice} - {name_of(option)}))
            if option == "not_inplace":
                also = ()
            self.findings.option(
                self, option, tuple(a for a in also if a not in ("pad_on_query", "mask_fold_order")), found, form=form
            )
            return
        if declared or role == "lengths":
            return
        if form.mask_kind == "drop" and role == "mask":
            self.findings.add(
                "mask_inverted", kind="convention", certain=False, diagnosis=self,
                message=f"In {name}, True hides a key, as in nn.MultiheadAttention; in scaled_dot_product_attention "
                "True keeps it. Say so in its documentation.",
            )  # fmt: skip
        if form.mask_kind == "additive" and role == "mask" and any(f.mask_kind == "keep" for f in tried):
            self.findings.add(
                "mask_bool_as_float", kind="risk", certain=False, diagnosis=self,
                message=f"{name} is added to the scores; a mask of booleans is accepted too, and hides nothing.",
            )  # fmt: skip

    def _causal_stage(self) -> None:
        trials = self.attempt([self.form], self._sizes(), causal=True)[self.form]
        square, wide = trials[0], trials[1:]
        if square.outcome.error is not None:
            if "mask" in square.outcome.error["message"]:
                self.findings.convention["causal"] = "only beside a mask"
            else:
                self.findings.raised(self, square.outcome.error)
            return
        if wide and wide[0].outcome.error is not None:
            self.findings.convention["causal"] = "T = S only"
            if self.wide and not self.interface.declared_causal:
                self.findings.add(
                    "cross_wrong_length", kind="risk", certain=True, diagnosis=self, line=wide[0].outcome.error["line"]
                )
            trials = trials[:1]
        self._explain_causal(trials)

    def _explain_causal(self, trials: list[Trial]) -> None:
        found = explain(
            self.attention, self.form, trials, start=self.choices, steps=("align", "diagonal", "causal", "mask"), most=2
        )
        if not found:
            self.findings.unknown(self, trials, "with a causal mask")
            return
        self.findings.convention.setdefault(
            "causal", "the last query stands at the last key" if len(trials) > 1 else "T = S"
        )
        self.causal_choice = found[0].choice
        self._tell_causal(found[0].choice, found)

    def _tell_causal(self, choice: dict[str, str], found: list[Match]) -> None:
        for step in ("align", "diagonal", "causal", "mask"):
            option = choice.get(step)
            if option is None:
                continue
            if option == "causal_missing" and thrown_away(self.interface.description["source"]):
                option = "not_inplace"
            if option == "causal_top_left":
                self.findings.convention["causal"] = "the first query stands at the first key"
            self.findings.option(self, option, (), found)

    def _rebuilt(self, argument: str, value: Any) -> None:
        """The same class, built with another argument."""
        assert self.rebuild is not None
        made = build(self.attention.session, self.rebuild, **{argument: value})
        if not isinstance(made, Instance):
            return
        before = self.attention.instance
        self.attention.instance = made
        if argument == "causal":
            features = {"causal": True}
            trials = self.attempt([self.form], self._sizes(), **features)[self.form]
            if trials[0].outcome.error is None:
                self._explain_causal([t for t in trials if t.outcome.error is None])
        self.attention.instance = before

    def _window_stage(self) -> None:
        reaching = Size(T=9, S=9)
        causal = [True, False] if not self.interface.has("causal") else [True]
        found: list[Match] = []
        first = None
        for is_causal in causal:
            for asked, reach in ((4, 4), (4, 2)):
                form = replace(self.form, causal=is_causal)
                case = self.attention.case(form, reaching, causal=is_causal, window=reach)
                given = replace(case, window=asked)
                outcome = self.attention.one(form, given)
                first = first or (form, Trial(case, outcome))
                if outcome.error is None:
                    steps = ("window", "diagonal", "mask", "causal")
                    found += explain(
                        self.attention, form, [Trial(case, outcome)], start=self.choices, steps=steps, most=1
                    )
        found.sort(key=lambda m: (m.cost, m.choice.get("window") != "window_off_by_one"))
        if not found:
            assert first is not None
            if not self._refused("window", first[1].outcome):
                self.findings.unknown(self, [first[1]], "with a window", form=first[0])
            return
        best = found[0]
        for step in ("diagonal", "mask", "causal"):
            if step in best.choice and best.choice[step] not in {c.get(step) for c in self.choices}:
                self.findings.option(self, best.choice[step], (), found)
        self.tell_window(best.choice.get("window"), found)

    def _cap_stage(self) -> None:
        forms = [next(iter(self.masked.values()))] if self.masked else [self.form]
        if not self.masked and self.interface.has("causal"):
            features: dict[str, Any] = {"cap": 0.7, "causal": True}
        else:
            features = {"cap": 0.7, "masked": bool(self.masked)}
        trials = self.attempt(forms, (SQUARE,), **features)[forms[0]]
        start = (
            distinct([{**c, **(self.causal_choice or {})} for c in self.choices])
            if "causal" in features
            else self.choices
        )
        if self._refused("softcap", trials[0].outcome):
            return
        found = explain(self.attention, forms[0], trials, start=start, steps=("cap", "mask"), most=2)
        plain = self.attempt([self.form], (SQUARE,), cap=0.7)[self.form]
        if not found:
            found = explain(self.attention, self.form, plain, start=self.choices, steps=("cap",), most=1)
        if not found:
            self.findings.unknown(self, trials, "with a softcap", form=forms[0])
        elif "cap" in found[0].choice:
            self.findings.option(self, found[0].choice["cap"], (), found)

    def _group_stage(self) -> None:
        face = self.interface
        heads_layout = not self.form.flat and self.form.layout in ("BHTD", "BTHD", "HTD", "THD", "TBHD")
        asked = re.search(
            r"group|kv_?head|repeat|tile|enable_gqa|gqa|mqa|n_rep|h_kv|hkv|expand", face.text, re.IGNORECASE
        )
        if self.attention.instance is not None and self.attention.instance.projections is not None:
            if self._takes("groups"):
                self._grouped_instance()
            return
        if not (
            (heads_layout or (self.form.flat and face.has("groups")))
            and (asked or face.has("groups") or face.has("repeats"))
        ):
            return
        size = Size(B=3, H=4, G=2, T=5, S=7 if self.wide else 5, D=6)
        case = self.attention.case(self.form, size)
        ask = {a.name: {"value": True} for a in face.arguments if a.name in ("enable_gqa", "gqa", "grouped")}
        outcome = self.attention.one(self.form, case, ask=ask)
        if outcome.error is None:
            self._explain_groups([Trial(case, outcome)])
        elif face.has("groups") or face.has("repeats") or re.search(r"grouped|gqa", face.name, re.IGNORECASE):
            self._wrong_axis(case, ask, outcome)

    def _wrong_axis(self, case: Case, ask: dict[str, Any], outcome: Outcome) -> None:
        """Repeating the wrong axis fails, unless that makes heads and positions equal in number."""
        if re.search(r"repeat|tile|expand|concat|broadcast", self.interface.code):
            self.findings.add(
                "gqa_repeat_wrong_axis", certain=False, diagnosis=self, line=(outcome.error or {}).get("line")
            )
        else:
            self._refused("grouped queries", outcome)

    def _refused(self, step: str, outcome: Outcome) -> bool:
        """Whether a call raised that nobody promised would work."""
        if outcome.error is not None:
            self.findings.convention[step] = f"not tried: it raised {outcome.error['type']}"
            self.findings.entered(step, f"{outcome.error['type']}: {outcome.error['message'][:60]}", tried=False)
        return outcome.error is not None

    def _explain_groups(self, trials: list[Trial]) -> None:
        found = explain(self.attention, self.form, trials, start=self.choices, steps=("group",), most=1)
        if not found:
            self.findings.unknown(self, trials, "with fewer key heads than query heads")
            return
        self.findings.convention["grouped queries"] = "head h reads key head h // (H/G)"
        option = found[0].choice.get("group")
        if option:
            if name_of(option) == "gqa_tile":
                self.findings.convention["grouped queries"] = "head h reads key head h mod G"
            self.findings.option(self, option, (), found, kind=self.kind(option))

    def _grouped_instance(self) -> None:
        assert self.rebuild is not None
        made = build(self.attention.session, self.rebuild, heads=6, groups=2, model_dim=12, head_dim=2)
        if not isinstance(made, Instance):
            return
        before, self.attention.instance = self.attention.instance, made
        trials = self.attempt([self.form], self._sizes())[self.form]
        if trials[0].outcome.error is None:
            self._explain_groups(trials)
        else:
            self._wrong_axis(trials[0].case, {}, trials[0].outcome)
        self.attention.instance = before

    # What is returned beside the output.

    def extras(self) -> None:
        """Returned weights and log-sum-exps."""
        face = self.interface
        ask = {role: {"value": True} for role in ("want_weights", "want_lse") if face.has(role)}
        size = WIDE if self.wide else self._sizes()[0]
        if self.single(self.form, size):
            size = SQUARE
        case = self.attention.case(self.form, size)
        outcome = self.attention.one(self.form, case, ask=ask)
        parts = self.attention.predict(self.form, case, self.choices[0])
        if outcome.error is not None or self.form.returns == "weights":
            return
        said_output = False
        for path, array, _ in outcome.outputs:
            if not said_output and layouts.take(array, self.form.layout, parts.output.shape) is not None:
                said_output = True
                continue
            self._extra(path, array, parts)

    def _extra(self, path: str, array: np.ndarray, parts: Parts) -> None:
        found = layouts.take_weights(array, self.form.layout, parts.weights.shape)
        if found is not None:
            seen, how = found

            def like(x: np.ndarray) -> np.ndarray:
                return x if seen.shape == x.shape else x.mean(axis=1, keepdims=True)

            if difference(seen, like(parts.weights)) < LOOSE:
                self.findings.convention["weights"] = f"result{path}, {how}"
            elif any(difference(seen, like(x)) < LOOSE for x in (parts.scores, parts.raw)):
                self.findings.add("returns_scores", certain=True, diagnosis=self)
            elif seen.shape[1] == 1 and difference(seen, parts.weights.sum(1, keepdims=True)) < LOOSE:
                self.findings.convention["weights"] = f"result{path}, sum of heads"
            return
        lse = parts.lse
        if (
            array.size == lse.size
            and array.ndim >= 1
            and self.form.layout in ("BHTD", "BTHD", "BTD", "TD", "HTD", "D", "BD")
        ):
            shaped: np.ndarray | None = (
                array.reshape(lse.shape) if array.shape[:1] == lse.shape[:1] or lse.shape[0] == 1 else None
            )
            if shaped is not None and self.form.layout == "BTHD" and array.shape[1:3] == (lse.shape[2], lse.shape[1]):
                shaped = array.reshape(len(lse), lse.shape[2], lse.shape[1]).swapaxes(1, 2)
            if shaped is None:
                return
            if difference(shaped, lse) < LOOSE:
                self.findings.convention["log-sum-exp"] = "natural"
            elif difference(shaped, lse / np.log(2)) < LOOSE:
                self.findings.add("lse_base2", certain=True, diagnosis=self)
