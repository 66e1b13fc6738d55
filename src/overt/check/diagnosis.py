"""Which known mistakes reproduce a candidate that attends: stage by stage, each adding one feature to the problem."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from overt.check import layouts
from overt.check.attention import CUBE, SQUARE, WIDE, Attention, Form, Instance, Outcome, Size, UnknownError, difference
from overt.check.findings import Findings
from overt.check.instances import build
from overt.check.interface import Interface, letter, thrown_away
from overt.check.mistakes import name_of, rank
from overt.check.report import Kind
from overt.check.search import LOOSE, Match, Trial, explain, fit
from overt.check.steps import Case, Parts, options

_SHAPES = {
    "mask": ("B1TS", "BTS", "TS", "BS", "B11S", "B1S", "FTS", "1TS"),
    "padding": ("BS", "B11S", "B1S", "BTS", "B1TS", "TS", "S"),
    "lengths": ("lengths",),
}
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


class PuzzledError(Exception):
    """No way was found to call the candidate; the message says what is missing."""


class Diagnosis:
    """The stages of one candidate; findings and the convention are collected on the way."""

    def __init__(
        self, attention: Attention, findings: Findings, *, layout: str | None = None, mask: str | None = None
    ) -> None:
        self.attention = attention
        self.interface = attention.interface
        self.findings = findings
        self.asked_layout = layout
        self.asked_mask = mask
        self.form = Form("BHTD", False)
        self.choices: list[dict[str, str]] = [{}]
        self.masked: dict[str, Form] = {}
        self.wide = True
        self.understood = False

    # The base: no mask, no options.

    def base(self) -> bool:
        """Find the way to call it and what is wrong without a mask; False where it was found wrong, but not why."""
        trials = self._try(self._forms(), (SQUARE, WIDE))
        usable = {
            form: self._cut(form, mine) for form, mine in trials.items() if any(self._fits(form, t) for t in mine)
        }
        meant = self.interface.told_layouts
        if (
            meant
            and not any(form.layout in meant for form in usable)
            and self._transposed([f for f in trials if f.layout in meant])
        ):
            return True
        if not usable:
            return self._unusable(trials)
        found = self._settle(usable)
        if found is None:
            self.form = next(iter(usable))
            if self._low_precision(usable):
                return True
            if self.interface.has("lengths") and self._hidden():
                return False
            self._only_attention()
            self.findings.unknown(self, usable[self.form])
            return False
        self.form = found[0].form
        self.choices = _distinct([m.choice for m in found])
        self.understood = True
        self.base_trials = usable[self.form]
        self._tell_base(found)
        self._one_length(usable[self.form])
        self._two_axes()
        return True

    def _hidden(self) -> bool:
        """Lengths that must be given hide everything where they are full and read the wrong way; others show it."""
        trials = self._try([f for f in self._forms() if f.mask_shape == "lengths"], (SQUARE, WIDE), masked=True)
        usable = {form: mine for form, mine in trials.items() if any(self._fits(form, t) for t in mine)}
        found = self._settle(usable)
        if found is None or not any("mask" in m.choice for m in found):
            return False
        self.form, self.choices = found[0].form, _distinct([m.choice for m in found])
        self._tell_base(found)
        return True

    def _cut(self, form: Form, trials: list[Trial]) -> list[Trial]:
        """An output that has not one row for each query, where only lengths differ, is as good as none."""
        if len(trials) < 2 or not self._fits(form, trials[0]) or trials[1].outcome.error or self._fits(form, trials[1]):
            return trials
        error = {"type": "ShapeError", "message": "the output has another length than the queries", "line": None}
        return [trials[0], Trial(trials[1].case, Outcome(error, []))]

    def _forms(self) -> list[Form]:
        """Ways to call, the likelier first."""
        face, instance = self.interface, self.attention.instance
        roles = self._roles()
        projected = instance is not None and instance.projections is not None
        weights = face.has("params") or any(r[0] in "Wb" and r not in ("base", "bias") for r in face.by_role)
        flat = [True] if projected or weights or face.has("heads") else [False]
        if instance is not None and not projected:
            flat = (
                [True, False]
                if instance.heads > 1 and roles[0] == "x"
                else [False, True]
                if instance.heads > 1
                else [False]
            )
        if face.has("heads") and not weights and not projected:
            flat = [True, False]
        rotary: list[str | None] = [None]
        if face.rotates:
            rotary = ["half", "interleaved", None]
        alibi = [True, False] if re.search(r"alibi", face.text, re.IGNORECASE) and not face.has("slopes") else [False]
        causal = [True] if face.declared_causal else [False, True]
        if face.has("causal"):
            causal = [False]
        elif face.has("window"):
            causal = [False, True]
        cosine = [True, False] if re.search(r"cosine|cos_sim|linalg\.norm|normalize\(", face.text) else [False]
        surroundings: list[tuple[str | None, bool]] = [(None, False)]
        if instance is not None and instance.norm is not None:
            surroundings = [(n, r) for n in (None, "before", "after") for r in (False, True)]
        elif instance is not None:
            surroundings = [(None, False), (None, True)]
        turned = (
            [False, True] if (instance is None and weights) or (instance is not None and instance.turnable) else [False]
        )
        # Weights with an axis of heads stand in einsum with three letters.
        apart: list[tuple[tuple[str, str] | None, bool]] = [(None, False)]
        if weights and instance is None and re.search(r"einsum\(\s*[\"'][a-zA-Z.]+\s*,\s*[a-zA-Z]{3}\s*->", face.code):
            apart = [*product((("HDK", "HKD"), ("HDK", "HDK"), ("DHK", "HKD")), (False, True)), *apart]
        returns = ["weights", "output"] if roles == ("q", "k") else ["output"]
        if roles in (("q", "context"), ("x", "context")):
            returns = ["output", "weights"]
        masks = self._required_masks()
        hinted = face.layouts
        forms = []
        for is_flat in flat:
            order = list(layouts.FLAT if is_flat else layouts.HEADS)
            if not is_flat and face.has("heads"):
                order = [o for o in order if layouts.sizes(o, False)[1]]
            if self.asked_layout:
                order = [self.asked_layout]
            else:
                told = [h for h in hinted if h in order]
                order = told + [o for o in order if o not in told]
            if "k" not in roles:
                order = [o for o in order if o != "BHTD-BSD"]
            if roles in (("x",), ("qkv",)):
                order = [o for o in order if o not in ("BD", "D", "1BD")]
            for layout, c, a, rope, (norm, residual), t, r, (kind, shape, number), cos, (axes, one) in product(
                order, causal, alibi, rotary, surroundings, turned, returns, masks, cosine, apart
            ):
                if axes and (t or layout not in ("BTD", "TD")):
                    continue
                form = Form(layout, is_flat, kind, shape, number, t, norm, residual, r, roles, rope, c, a, cos)
                forms.append(replace(form, apart=axes, one_key=one))
        return forms

    def _roles(self) -> tuple[str, ...]:
        face = self.interface
        for roles in (
            ("q", "k", "v"),
            ("qkv",),
            ("q", "kv"),
            ("q", "context"),
            ("x", "context"),
            ("q", "k"),
            ("x",),
            ("q",),
        ):
            if face.has(*roles):
                return roles
        raise PuzzledError(
            f"cannot tell which argument of {face.name} is what: name them with --argument, "
            "such as --argument a=q --argument b=k --argument c=v"
        )

    def _required_masks(self) -> list[tuple[str, str, bool]]:
        face = self.interface
        for name in ("mask", "padding"):
            if face.has(name) and face.by_role[name].required:
                # All visible under any reading: how the mask is read is found out later.
                kinds = ["keep", "drop", "additive"]
                return [(k, s, n) for s in _SHAPES[name] for k in kinds for n in (False, True)]
        if face.has("lengths") and face.by_role["lengths"].required:
            return [("keep", "lengths", False)]
        return [("keep", "TS", False)]

    def _declared(self, role: str) -> str | None:
        return self.asked_mask or self.interface.declared_mask(role)

    def _try(self, forms: Sequence[Form], sizes: Sequence[Size], **features: Any) -> dict[Form, list[Trial]]:
        """Call every form with every size, once where only the prediction differs."""
        plans: list[tuple[Form, Case, int]] = []
        calls: list[tuple[dict[str, Any], dict[str, np.ndarray]]] = []
        known: dict[tuple, int] = {}
        for form in forms:
            own = replace(
                form, cosine=False, norm=None, residual=False, rope=None, alibi=False, causal=False, returns=""
            )
            if self.attention.instance is not None:
                own = replace(own, turned=False)
            for number, size in enumerate(sizes):
                if number and self._single(form, size):
                    continue
                extra = dict(features)
                if extra.pop("masked", False):
                    extra |= self.attention.mask(form, size)
                case = self.attention.case(form, size, **extra)
                key = (own, number)
                if key not in known:
                    try:
                        calls.append(self.attention.call(form, case))
                    except UnknownError as unknown:
                        raise PuzzledError(
                            f"cannot tell what the argument {unknown} of {self.interface.name} is: "
                            f"say it with --argument, such as --argument {unknown}=mask"
                        ) from None
                    known[key] = len(calls) - 1
                plans.append((form, case, known[key]))
        outcomes = self.attention.run(calls) if calls else []
        found: dict[Form, list[Trial]] = {}
        for form, case, at in plans:
            found.setdefault(form, []).append(Trial(case, outcomes[at]))
        return found

    def _single(self, form: Form, size: Size) -> bool:
        """Whether a form has one length only, and this size has two."""
        return form.roles in (("x",), ("qkv",)) and size.T != size.S

    def _fits(self, form: Form, trial: Trial) -> bool:
        if trial.outcome.error is not None:
            return False
        try:
            parts = self.attention.predict(form, trial.case, {})
        except ValueError:
            return False
        return self.attention.observed(form, parts, trial.outcome) is not None

    def _settle(self, usable: dict[Form, list[Trial]]) -> list[Match] | None:
        """The matches of the form that explains the candidate best."""
        attention = self.attention
        steps = None
        exact = [m[0] for form, mine in usable.items() if (m := explain(attention, form, mine, most=0))]
        told = self.interface.layouts
        if exact:
            best = self._preferred(exact, usable)
            if best is not None:
                return [best]
        plausible = self._plausible(usable)
        promised = self.interface.declared_causal
        for count in (1, 2, 3):
            found: list[Match] = []
            tried = plausible[: 16 if count == 1 else 6]
            if count == 3:
                # One query without an axis: so little can be told apart there that it comes last.
                tried = [form for form in usable if form.layout in ("BD", "D", "1BD")][:4]
            for form in tried:
                mine = explain(attention, form, usable[form], steps=steps, most=min(count, 2))
                if form.causal and not promised:
                    # Nobody promised a causal mask, so what looks like a wrong one is none.
                    mine = [m for m in mine if not {"causal", "diagonal", "mask"} & set(m.choice)]
                found += [m for m in mine if m.cost > 0]
            if found:
                order = list(usable)
                found.sort(
                    key=lambda m: (
                        m.cost + (m.form.causal and not promised),
                        m.form.layout not in told and bool(told),
                        rank(m.choice),
                        order.index(m.form),
                    )
                )
                best_form = found[0].form
                return [m for m in found if m.form == best_form and m.cost == found[0].cost]
        return [exact[0]] if exact else None

    def _plausible(self, usable: dict[Form, list[Trial]]) -> list[Form]:
        """Forms to look for mistakes in: those that the text names, or those with more axes."""
        told = [form for form in usable if form.layout in self.interface.layouts]
        if told:
            return told
        for unlikely in (("HTD", "THD", "TBHD", "TBD", "BD", "D", "1BD"), ("BD", "D", "1BD"), ()):
            rest = [form for form in usable if form.layout not in unlikely]
            if rest:
                return sorted(rest, key=lambda f: f.causal and not self.interface.declared_causal)
        return []

    def _preferred(self, exact: list[Match], usable: dict[Form, list[Trial]]) -> Match | None:
        """The right form, unless it is right only with fewer axes than the text means."""
        told = self.interface.layouts
        if self.asked_layout:
            return exact[0]
        first = next((m for m in exact if m.form.layout in told), None)
        if first is not None:
            return first
        if "BTD" in told:
            # Batches are no heads: code that is right for heads second takes the sequence first.
            exact = [m for m in exact if m.form.layout not in ("HTD", "THD")] or exact
        tall = [m for m in exact if m.form.layout in ("BHTD", "BTHD", "BTD", "HTD", "THD", "TBHD")]
        if tall:
            return tall[0]
        swapped = [m for m in exact if m.form.layout == "TBD"]
        if swapped:
            return swapped[0]
        # Right for single sequences only.  Other layouts ran, and what they gave is wrong.
        wrong = [form for form in usable if form.layout in ("BTD", "BHTD", "BTHD")]
        flat2 = "TD" in told or re.search(r"\.T\b(?!\w)", self.interface.code) or not wrong
        single = next((m for m in exact if m.form.layout == "TD"), None)
        several = any(form.layout not in ("BD", "D", "1BD") for form in usable)
        if single is None and several:
            return None
        return (single or exact[0]) if flat2 else None

    def _unusable(self, trials: dict[Form, list[Trial]]) -> bool:
        """Nothing fitted: keys transposed wrongly, a bug, or an interface that was not understood."""
        if self._transposed([f for f in trials if f.layout in ("BHTD", "BTHD", "BTD", "TD")][:48]):
            return True
        told = [f for f in trials if f.layout in self.interface.layouts] or list(trials)
        outcome = trials[told[0]][0].outcome
        if outcome.error is None:
            shapes = ", ".join(str(array.shape) for _, array, _ in outcome.outputs) or outcome.form
            given = " ".join(str(a.shape) for a in self.attention.call(told[0], trials[told[0]][0].case)[1].values())
            raise PuzzledError(
                f"{self.interface.name} returned {shapes} for inputs {given}, no output of attention in any layout: "
                "name the layout and the arguments, such as --layout BTHD --argument a=q"
            )
        shapes = r"shape|size|dimension|subscript|broadcast|mismatch|unpack|axes|axis|operand|expand"
        projected = self.attention.instance is not None and self.attention.instance.projections is not None
        # What projects says how its input lies; elsewhere arrays may lie in a way that was not tried.
        if (
            not projected
            and outcome.error["type"] not in ("KeyError", "MemoryError")
            and re.search(shapes, outcome.error["message"])
            and "view size is not compatible" not in outcome.error["message"]
        ):
            raise PuzzledError(
                f"{self.interface.name} ran in no layout: with {told[0].layout} it raises {outcome.error['type']}: "
                f"{outcome.error['message'][:120]}: name the layout and the arguments, such as --layout BHTD "
                "--argument a=q"
            )
        self.findings.raised(self, outcome.error)
        return False

    def _only_attention(self) -> None:
        """Layers that hold more than attention cannot be compared with it."""
        rows = self.attention.instance.rows if self.attention.instance else []
        rest = [row["path"] for row in rows if len(row["shape"]) > 1 and letter(row["path"], row["owner"]) is None]
        if (
            rest
            and self.attention.instance
            and self.attention.instance.projections
            and "o" in self.attention.instance.projections.weight
        ):
            raise PuzzledError(
                f"{self.interface.name} holds more than attention ({', '.join(rest[:3])}): "
                "check the attention inside it, such as FILE.py:model.self_attn"
            )

    def _low_precision(self, usable: dict[Form, list[Trial]]) -> bool:
        """Right to three digits, and in steps: a tiny change of the input changes nothing, or too much."""
        attention = self.attention
        for form in self._plausible(usable)[:4]:
            for choice in ({}, *({s: o} for s in ("scale", "softmax") for o in options(usable[form][0].case, s))):
                case, outcome = usable[form][0]
                error = attention.error(form, attention.predict(form, case, choice), outcome)
                if error is None or error > 3e-2:
                    continue
                moved = replace(case, q=case.q * (1 + 1e-7), k=case.k if case.k is not case.q else case.q * (1 + 1e-7))
                moved = replace(moved, v=moved.k) if case.v is case.k else moved
                again = attention.run([attention.call(form, moved)])[0]
                if outcome.main is None or again.main is None or again.main.shape != outcome.main.shape:
                    continue
                change = np.abs(again.main - outcome.main)
                if (change == 0).mean() > 0.3 or change.max() > 1e-5:
                    self.form, self.choices, self.understood, self.base_trials = form, [choice], True, usable[form]
                    self.findings.convention["layout"] = form.layout
                    self.findings.add(
                        "softmax_low_precision", kind="mistake", example={"error": f"{error:.1e} of the largest value"}
                    )
                    for option in choice.values():
                        self.findings.add(name_of(option), certain=False)
                    return not choice
        return False

    def _transposed(self, forms: list[Form]) -> bool:
        """Keys transposed over the wrong axes run only where all axes are equally long."""
        for form, mine in self._try(forms, (CUBE,)).items():
            if self._fits(form, mine[0]):
                found = explain(self.attention, form, mine, steps=("transpose", "scale", "softmax"), most=2)
                found = [m for m in found if "transpose" in m.choice]
                if found:
                    self.form, self.choices = form, _distinct([m.choice for m in found])
                    self.base_trials = mine
                    self.wide = False
                    self.understood = True
                    self._tell_base(found)
                    return True
        return False

    def _tell_base(self, found: list[Match]) -> None:
        form, instance = self.form, self.attention.instance
        convention = self.findings.convention
        convention["arrays"] = self.interface.description["backend"]
        convention["layout"] = form.layout + (" with the heads inside" if form.flat and self._heads() > 1 else "")
        if instance is not None:
            convention["heads"] = str(instance.heads)
        if form.causal:
            convention["causal"] = "always"
        if form.rope:
            convention["rope"] = form.rope
        if form.residual or form.norm:
            convention["around it"] = " and ".join(
                filter(None, [f"layer norm {form.norm}" if form.norm else "", "residual" if form.residual else ""])
            )
        if self.interface.declared_unscaled and not self.interface.has("scale"):
            self.choices = [c for c in self.choices if c.get("scale") == "scale_missing"] or self.choices
            if self.choices[0].get("scale") == "scale_missing":
                convention["scale"] = "none: the caller's business"
        elif "scale" in self.choices[0]:
            pass
        elif not form.rope:
            convention["scale"] = "1/√d"
        if form.layout in ("TBD", "TBHD") and not self._sequence_first():
            self.findings.add(
                "batch_first", certain=bool({"BTD", "BTHD"} & set(self.interface.told_layouts)), diagnosis=self
            )
        if instance is not None and instance.shared:
            self.findings.add("shared_projection", diagnosis=self)
        told = {name for c in self.choices[:1] for name in c.values()}
        for option in told:
            if option == "scale_missing" and self.interface.declared_unscaled:
                continue
            if name_of(option) == "qkv_order" and instance is not None:
                self._tell_packing(option, found)
                continue
            if name_of(option) == "window_off_by_one":
                continue
            if option == "causal_missing" and thrown_away(self.interface.description["source"]):
                option = "not_inplace"
            self.findings.option(self, option, self._also(option), found, kind=self._kind(option))
        packed = instance is not None and instance.heads > 1 and instance.projections and instance.projections.packed
        if packed and self.interface.told_packing == "heads first" and "packed" not in self.choices[0]:
            self.findings.option(self, "qkv_order", (), found)
        if instance is not None and instance.window:
            self._tell_window(self.choices[0].get("window"), found)

    def _kind(self, option: str) -> Kind | None:
        """The order of grouped queries is convention, unless the text says which."""
        return "mistake" if option == "gqa_tile" and self.interface.declared_grouped else None

    def _tell_packing(self, option: str, found: list[Match]) -> None:
        """Any order of q, k and v is right for weights of one's own, unless the text names another."""
        told, how = self.interface.told_packing, option.partition(":")[2]
        order = (
            "".join(mine for piece in "qkv" for mine in "qkv" if how["qkv".index(mine)] == piece)
            if len(how) == 3
            else how
        )
        if told == order or how == "kv of each head":
            self.findings.convention["packed projection"] = order
        elif told is None and len(how) == 3 and not re.search(r"\bqkv|query_?key_?value", self.interface.code):
            self.findings.convention["packed projection"] = order
            self.findings.option(self, option, (), found, kind="convention")
        else:
            self.findings.option(self, option, self._also(option), found)

    def _also(self, option: str) -> tuple[str, ...]:
        """Other mistakes that gave the same numbers everywhere."""
        others = [c for c in self.choices if option not in c.values()]
        return tuple(
            sorted({name_of(o) for c in others for o in c.values()} - {name_of(o) for o in self.choices[0].values()})
        )

    def _heads(self) -> int:
        return self.attention.instance.heads if self.attention.instance else 3

    def _sequence_first(self) -> bool:
        """Whether something says that the sequence comes first."""
        bases = self.interface.description["bases"]
        text = self.interface.text
        meant = set(self.interface.told_layouts)
        if {"BTD", "BTHD"} & meant and not {"TBD", "TBHD"} & meant and not self.asked_layout:
            return False
        named = "TBD" in self.interface.layouts or "TBHD" in self.interface.layouts
        said = re.search(
            r"(seq|time|length|tgt|L|T|S|N)\w*[ _]?(len\w*)?\s*,\s*(batch|B|N|bsz)\b"
            r"|(sequence|time|seq)[- ](first|major)|batch_first\s*=\s*False",
            text,
        )
        layer = self.interface.name == "MultiheadAttention" or any("torch.nn.modules.activation" in b for b in bases)
        explicit = self.attention.instance is None and not {"BTD", "BTHD"} & set(self.interface.layouts)
        return bool(named or said or layer or explicit or self.asked_layout)

    def _one_length(self, trials: list[Trial]) -> None:
        """It may fail where there are more keys than queries."""
        if len(trials) < 2 or trials[1].outcome.error is None or self.form.layout in ("BD", "D", "1BD"):
            return
        self.wide = False
        if self.form.causal or self.interface.declared_causal or self.interface.has("window"):
            self.findings.convention["lengths"] = "T = S only"
            return
        if re.search(r"self", re.sub(r"\bself\b[.,)]", "", self.interface.name + self.interface.prose), re.IGNORECASE):
            self.findings.convention["lengths"] = "T = S only"
            return
        self.findings.add("cross_wrong_length", certain=True, diagnosis=self, line=trials[1].outcome.error["line"])

    def _two_axes(self) -> None:
        """``.T`` is right for two axes only."""
        if self.form.layout != "TD" or "transpose" in self.choices[0]:
            return
        if not re.search(r"\.T\b", self.interface.code):
            form = replace(self.form, layout="BTD")
            cubes = self._try([form], (CUBE,))[form]
            found = explain(self.attention, form, cubes, start=self.choices, steps=("transpose",), most=1)
            if not any("transpose" in m.choice for m in found):
                return
        # A torch module gets batches, unless it says that it does not; other code where it says so.
        told = self.interface.told_layouts
        module = any(base.startswith("torch.nn") for base in self.interface.description["bases"]) and "TD" not in told
        batched = module or {"BTD", "BHTD"} & set(told)
        self.findings.add(
            "k_transposed_wrong", kind="mistake" if batched else "risk", certain=bool(batched), look=r"\.T\b"
        )

    # Features, each with problems of its own.

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

    rebuild: Interface | None = None

    def _takes(self, wanted: str) -> bool:
        from overt.check.instances import _constructor_role

        return self.rebuild is not None and any(_constructor_role(a.name) == wanted for a in self.rebuild.arguments)

    def _sizes(self) -> tuple[Size, ...]:
        if "transpose" in self.choices[0]:
            return (CUBE,)
        return (SQUARE, WIDE) if self.wide else (SQUARE,)

    def _mask_stage(self, role: str) -> None:
        declared = self._declared(role) if role != "lengths" else "keep"
        kinds = [declared] if declared else ["keep", "drop", "additive"]
        if not declared and (self.interface.boolean_mask or role == "padding"):
            kinds = ["keep", "drop"]
        numbers = (False, True)
        forms = [
            replace(self.form, mask_kind=kind, mask_shape=shape, mask_number=number, masked=role)
            for shape in _SHAPES[role]
            for kind in kinds
            for number in numbers
        ]
        if role == "lengths":
            forms = forms[:1]
        trials = self._try(forms, self._sizes(), masked=True)
        failed = None
        for shape in _SHAPES[role]:
            mine = {f: t for f, t in trials.items() if f.mask_shape == shape and any(self._fits(f, one) for one in t)}
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
            if error is not None and self.interface.by_role[role].required:
                self.findings.raised(self, error)
            elif error is not None:
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
            found = explain(self.attention, form, filled, start=self.choices, steps=("mask",), most=most)
            if found:
                return found
        return []

    def _adds(self, form: Form) -> bool:
        """Whether a mask of any numbers is added to the scores."""
        case = self.attention.case(form, SQUARE, **self.attention.mask(form, SQUARE))
        bias = np.random.default_rng(9).normal(size=(1, 1, 1, case.k.shape[-2]))
        case = replace(case, bias=np.broadcast_to(bias, (len(case.q), 1, case.q.shape[-2], case.k.shape[-2])))
        outcome = self.attention.run([self.attention.call(form, case)])[0]
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
        trials = self._try([self.form], self._sizes(), causal=True)[self.form]
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

    causal_choice: dict[str, str] | None = None

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
            trials = self._try([self.form], self._sizes(), **features)[self.form]
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
                outcome = self.attention.run([self.attention.call(form, given)])[0]
                first = first or (form, Trial(case, outcome))
                if outcome.error is None:
                    steps = ("window", "diagonal", "mask", "causal")
                    found += explain(
                        self.attention, form, [Trial(case, outcome)], start=self.choices, steps=steps, most=1
                    )
        found.sort(key=lambda m: (m.cost, m.choice.get("window") != "window_off_by_one"))
        if not found:
            assert first is not None
            if first[1].outcome.error is not None:
                self.findings.raised(self, first[1].outcome.error)
            else:
                self.findings.unknown(self, [first[1]], "with a window", form=first[0])
            return
        best = found[0]
        for step in ("diagonal", "mask", "causal"):
            if step in best.choice and best.choice[step] not in {c.get(step) for c in self.choices}:
                self.findings.option(self, best.choice[step], (), found)
        self._tell_window(best.choice.get("window"), found)

    def _tell_window(self, option: str | None, found: list[Match]) -> None:
        with_self, besides = self.interface.counts_itself
        counted = "the query is counted" if option == "window_off_by_one" else "the query is not counted"
        self.findings.convention["window"] = counted
        if option is None:
            if with_self and not besides:
                self.findings.option(self, "window_off_by_one", (), found)
        elif option == "window_off_by_one":
            if besides and not with_self:
                self.findings.option(self, "window_off_by_one", (), found)
            elif not with_self:
                self.findings.add("window_off_by_one", kind="convention", certain=True, diagnosis=self)
        else:
            self.findings.option(self, option, (), found)

    def _cap_stage(self) -> None:
        forms = [next(iter(self.masked.values()))] if self.masked else [self.form]
        if not self.masked and self.interface.has("causal"):
            features: dict[str, Any] = {"cap": 0.7, "causal": True}
        else:
            features = {"cap": 0.7, "masked": bool(self.masked)}
        trials = self._try(forms, (SQUARE,), **features)[forms[0]]
        start = (
            _distinct([{**c, **(self.causal_choice or {})} for c in self.choices])
            if "causal" in features
            else self.choices
        )
        if trials[0].outcome.error is not None:
            self.findings.raised(self, trials[0].outcome.error)
            return
        found = explain(self.attention, forms[0], trials, start=start, steps=("cap", "mask"), most=2)
        plain = self._try([self.form], (SQUARE,), cap=0.7)[self.form]
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
        outcome = self.attention.run([self.attention.call(self.form, case, ask=ask)])[0]
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
        elif outcome.error is not None:
            self.findings.raised(self, outcome.error)

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
            self.findings.option(self, option, (), found, kind=self._kind(option))

    def _grouped_instance(self) -> None:
        assert self.rebuild is not None
        made = build(self.attention.session, self.rebuild, heads=6, groups=2, model_dim=12, head_dim=2)
        if not isinstance(made, Instance):
            return
        before, self.attention.instance = self.attention.instance, made
        trials = self._try([self.form], self._sizes())[self.form]
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
        if self._single(self.form, size):
            size = SQUARE
        case = self.attention.case(self.form, size)
        outcome = self.attention.run([self.attention.call(self.form, case, ask=ask)])[0]
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


def _distinct(choices: list[dict[str, str]]) -> list[dict[str, str]]:
    return [c for number, c in enumerate(choices) if c not in choices[:number]]
