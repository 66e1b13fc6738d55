"""How a candidate that attends is called, and what is wrong with it before any mask or option."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.attention import CUBE, SQUARE, WIDE, Attention, Form, Outcome, Size, UnknownError
from overt.check.findings import Findings
from overt.check.forms import MoreError, PuzzledError, forms
from overt.check.instances import unconditional
from overt.check.interface import thrown_away
from overt.check.mistakes import name_of, rank
from overt.check.report import Kind
from overt.check.roles import letter
from overt.check.search import Match, Trial, explain
from overt.check.steps import Case, Parts, options

# Multiples that lengths and widths are tried in where no other call works.
_UNITS = (8, 16, 64)
# What no other call would change.
_ENDS = ("MemoryError", "SystemExit", "KeyboardInterrupt")


class FailedError(PuzzledError):
    """No call ran, though it seemed to be known how arrays lie: the candidate's fault, unless another call is found."""

    def __init__(self, message: str, error: dict[str, Any]) -> None:
        super().__init__(message)
        self.error = error


class Calling:
    """The first stage of one candidate; findings and the convention are collected on the way."""

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

    def base(self) -> bool:
        """Find the way to call it and what is wrong without a mask; False where it was found wrong, but not why."""
        candidates = forms(self.attention, self.asked_layout)
        trials = self.attempt(candidates, (SQUARE, WIDE))
        usable = self._usable(trials)
        for unit in _UNITS:
            errors = [t.outcome.error for mine in trials.values() for t in mine]
            if usable or any(error is None or error["type"] in _ENDS for error in errors):
                break
            # Code may count in blocks, or want widths that a processor likes.
            self.attention.unit = unit
            larger = self.attempt(candidates, (SQUARE, WIDE))
            usable = self._usable(larger)
            if usable:
                trials = larger
            else:
                self.attention.unit = 1
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
            # Some ignore the keys that are more than the queries.
            squares = {form: mine[:1] for form, mine in usable.items() if len(mine) > 1}
            found = self._settle(squares)
            if found:
                self.form = found[0].form
                self._square_only()
        if found is None:
            self.form = next(iter(usable))
            if self._low_precision(usable):
                return True
            if self.interface.has("lengths") and self._hidden():
                return False
            self._only_attention(usable)
            self.findings.unknown(self, usable[self.form])
            return False
        self.form = found[0].form
        self.choices = distinct([m.choice for m in found])
        self.understood = True
        self.base_trials = usable[self.form]
        self._tell_base(found)
        self._one_length(usable[self.form])
        self._two_axes()
        return True

    def _usable(self, trials: dict[Form, list[Trial]]) -> dict[Form, list[Trial]]:
        return {form: self._cut(form, mine) for form, mine in trials.items() if any(self.fits(form, t) for t in mine)}

    def _hidden(self) -> bool:
        """Lengths that must be given hide everything where they are full and read the wrong way; others show it."""
        trials = self.attempt(
            [f for f in forms(self.attention, self.asked_layout) if f.mask_shape == "lengths"],
            (SQUARE, WIDE),
            masked=True,
        )
        usable = {form: mine for form, mine in trials.items() if any(self.fits(form, t) for t in mine)}
        found = self._settle(usable)
        if found is None or not any("mask" in m.choice for m in found):
            return False
        self.form, self.choices = found[0].form, distinct([m.choice for m in found])
        self._tell_base(found)
        return True

    def _cut(self, form: Form, trials: list[Trial]) -> list[Trial]:
        """An output that has not one row for each query, where only lengths differ, is as good as none."""
        if len(trials) < 2 or not self.fits(form, trials[0]) or trials[1].outcome.error or self.fits(form, trials[1]):
            return trials
        error = {"type": "ShapeError", "message": "the output has another length than the queries", "line": None}
        return [trials[0], Trial(trials[1].case, Outcome(error, []))]

    def attempt(self, forms: Sequence[Form], sizes: Sequence[Size], **features: Any) -> dict[Form, list[Trial]]:
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
                if number and self.single(form, size):
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
                            f"say it with --argument {unknown}=ROLE"
                        ) from None
                    known[key] = len(calls) - 1
                plans.append((form, case, known[key]))
        outcomes = self.attention.run(calls) if calls else []
        found: dict[Form, list[Trial]] = {}
        for form, case, at in plans:
            found.setdefault(form, []).append(Trial(case, outcomes[at]))
        return found

    def parts(self, form: Form, case: Case) -> Parts:
        """What should come out, with the mistakes that were found."""
        return self.attention.predict(form, case, self.choices[0])

    def single(self, form: Form, size: Size) -> bool:
        """Whether a form has one length only, and this size has two."""
        return form.roles in (("x",), ("qkv",)) and size.T != size.S

    def fits(self, form: Form, trial: Trial) -> bool:
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
                    # Nobody promised a causal mask, so what looks like a wrong one is none, unless the code makes one.
                    made = re.search(r"\btri[lu]\b", self.interface.code)
                    mine = [
                        m for m in mine if not ({"causal"} if made else {"causal", "diagonal", "mask"}) & set(m.choice)
                    ]
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
        ran = {form: mine for form, mine in trials.items() if mine[0].outcome.error is None}
        if ran:
            self._only_attention(ran)
        told = [f for f in trials if f.layout in self.interface.layouts] or list(trials)
        outcome = trials[told[0]][0].outcome
        if outcome.error is None:
            shapes = ", ".join(str(array.shape) for _, array, _ in outcome.outputs) or outcome.form
            given = " ".join(str(a.shape) for a in self.attention.call(told[0], trials[told[0]][0].case)[1].values())
            raise PuzzledError(
                f"{self.interface.name} returned {shapes} for inputs {given}, no output of attention in any layout: "
                "name the layout and the arguments, such as --layout BTHD --argument a=q"
            )
        errors = [t.outcome.error for mine in trials.values() for t in mine if t.outcome.error is not None]
        message = (
            f"{self.interface.name} ran in no layout: with {told[0].layout} it raises {outcome.error['type']}: "
            f"{outcome.error['message'][:120]}: name the layout and the arguments, such as --layout BHTD "
            "--argument a=q"
        )
        # What projects says how its input lies.
        projected = self.attention.instance is not None and self.attention.instance.projections is not None
        sure = projected and not any(error.get("guarded") for error in errors)
        if outcome.error["type"] not in _ENDS and not sure and not unconditional(errors):
            # A call that fails proves nothing: arrays may lie in a way that was not tried.
            raise PuzzledError(message)
        if outcome.error["type"] not in _ENDS and not unconditional(errors):
            raise FailedError(message, outcome.error)
        self.findings.raised(self, outcome.error)
        return False

    def _only_attention(self, usable: dict[Form, list[Trial]]) -> None:
        """Layers that hold more than attention cannot be compared with it."""
        rows = self.attention.instance.rows if self.attention.instance else []
        rest = [row["path"] for row in rows if len(row["shape"]) > 1 and letter(row["path"], row["owner"]) is None]
        projections = self.attention.instance.projections if self.attention.instance else None
        # One matrix without a telling name may be the output's.
        if projections and len(rest) > ("o" not in projections.weight):
            raise MoreError(
                f"{self.interface.name} holds more than attention ({', '.join(rest[:3])}): "
                "check the attention inside it, such as FILE.py:model.self_attn",
                usable,
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
                again = attention.one(form, moved)
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
        for form, mine in self.attempt(forms, (CUBE,)).items():
            if self.fits(form, mine[0]):
                found = explain(self.attention, form, mine, steps=("transpose", "scale", "softmax"), most=2)
                found = [m for m in found if "transpose" in m.choice]
                if found:
                    self.form, self.choices = form, distinct([m.choice for m in found])
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
        if form.layout in ("TBD", "TBHD"):
            self.tell_batches()
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
            self.findings.option(self, option, self._also(option), found, kind=self.kind(option))
        packed = instance is not None and instance.heads > 1 and instance.projections and instance.projections.packed
        if packed and self.interface.told_packing == "heads first" and "packed" not in self.choices[0]:
            self.findings.option(self, "qkv_order", (), found)
        if instance is not None and instance.window:
            self.tell_window(self.choices[0].get("window"), found)

    def tell_batches(self) -> None:
        """The second axis counts samples: a mistake unless something says that the sequence comes first."""
        if not self._sequence_first():
            self.findings.add(
                "batch_first", certain=bool({"BTD", "BTHD"} & set(self.interface.told_layouts)), diagnosis=self
            )

    def kind(self, option: str) -> Kind | None:
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
        elif told is None and self._packing_is_free(per_head=len(how) != 3):
            self.findings.convention["packed projection"] = order
            self.findings.option(self, option, (), found, kind="convention")
        else:
            self.findings.option(self, option, self._also(option), found)

    def _packing_is_free(self, *, per_head: bool) -> bool:
        """Whether names leave the order open.  BLOOM, GPT-NeoX and Megatron pack their query_key_value head by head."""
        fused = re.search(r"query_?key_?value", self.interface.code)
        return bool(fused) if per_head else not (fused or re.search(r"\bqkv", self.interface.code))

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
        self._square_only(trials[1].outcome.error["line"])

    def _square_only(self, line: int | None = None) -> None:
        """It takes as many keys as queries: a mistake where it does not mean to be self-attention."""
        self.wide = False
        named = re.sub(r"\bself\b[.,)]", "", self.interface.name + self.interface.prose)
        causal = self.form.causal or self.interface.declared_causal or self.interface.has("window")
        if causal or re.search(r"self", named, re.IGNORECASE):
            self.findings.convention["lengths"] = "T = S only"
        else:
            self.findings.add("cross_wrong_length", certain=True, diagnosis=self, line=line)

    def _two_axes(self) -> None:
        """``.T`` is right for two axes only."""
        if self.form.layout != "TD" or "transpose" in self.choices[0]:
            return
        if not re.search(r"\.T\b", self.interface.code):
            form = replace(self.form, layout="BTD")
            cubes = self.attempt([form], (CUBE,))[form]
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

    def tell_window(self, option: str | None, found: list[Match]) -> None:
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


def distinct(choices: list[dict[str, str]]) -> list[dict[str, str]]:
    """Choices without those that stand before."""
    return [c for number, c in enumerate(choices) if c not in choices[:number]]
