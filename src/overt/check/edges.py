"""Where a candidate that is right on ordinary input is not: scores beyond exp, empty rows, NaN behind a mask, half."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check.attention import SQUARE, Form, Size, difference
from overt.check.diagnosis import Diagnosis
from overt.check.steps import Case, Parts

_SOFT = ("softmax_missing", "no_exp_norm", "softmax_partial_max", "softmax_partial_max:denominator")


def _loud(
    diagnosis: Diagnosis, form: Form, peak: float, spread: float, size: Size = SQUARE, **features: Any
) -> Case | None:
    """A case whose largest score is about ``peak`` and the lowest row's largest at least so much below, or alike."""
    attention = diagnosis.attention
    for seed in range(60):
        case = attention.case(form, size, seed=seed, **features)
        if spread < 0 and not features:
            case = _alike(case)
        scores = diagnosis.parts(form, case).scores
        top = np.where(np.isfinite(scores), scores, -np.inf).max(-1)
        factor = (peak / max(float(top.max()), 1e-6)) ** 0.5
        rows = top * factor**2
        if not np.isfinite(rows).all():
            rows = np.where(np.isfinite(rows), rows, rows[np.isfinite(rows)].max())
        if spread < 0 and rows.min() > peak + spread:
            return _scaled(case, factor)
        if spread >= 0 and (rows.max(-1) - rows.min(-1)).min() > spread and rows.max() > 0:
            return _scaled(case, factor)
    return None


def _alike(case: Case) -> Case:
    """The same query everywhere and the same key everywhere, so that all rows have the same scores."""
    axes = tuple(range(case.q.ndim - 1))
    q, k = (np.broadcast_to(x[(0,) * len(axes)], x.shape).copy() for x in (case.q, case.k))
    if case.k is case.q:
        return replace(case, q=q, k=q, v=q)
    return replace(case, q=q, k=k, v=k if case.v is case.k else case.v)


def _scaled(case: Case, factor: float) -> Case:
    if case.k is case.q:
        x = case.q * factor
        return replace(case, q=x, k=x, v=x)
    k = case.k * factor
    return replace(case, q=case.q * factor, k=k, v=k if case.v is case.k else case.v)


def _large(diagnosis: Diagnosis) -> None:
    """Scores beyond what exp can take."""
    form, findings = diagnosis.form, diagnosis.findings
    option = diagnosis.choices[0].get("softmax", "")
    if option in _SOFT or (diagnosis.attention.instance and diagnosis.attention.instance.norm):
        return
    one_row = form.roles in (("x",), ("q",))
    alike = _loud(diagnosis, form, 900.0, -700.0)
    apart = _loud(diagnosis, form, 2e4, 2e3) or (_loud(diagnosis, form, 2e5, 2e3) if one_row else None)
    broken = []
    for case in (alike, apart):
        if case is None:
            broken.append(False)
            continue
        outcome = diagnosis.attention.one(form, case)
        parts = diagnosis.parts(form, case)
        seen = diagnosis.attention.observed(form, parts, outcome)
        expected = parts.weights if form.returns == "weights" else parts.output
        # math.exp raises where NumPy's overflows.
        raised = outcome.error is not None and outcome.error["type"] == "OverflowError"
        lost = seen is not None and not np.isfinite(seen).all()
        broken.append((raised or lost) and bool(np.isfinite(expected).all()))
    if broken[0] or (broken[1] and alike is None):
        findings.add("no_max", example={"input": "scores of about 900", "actual": "nan"})
    elif broken[1]:
        findings.add("global_max", example={"input": "two rows of scores that lie 2000 apart", "actual": "nan"})


def _maskings(diagnosis: Diagnosis) -> list[tuple[Form, dict[str, Any]]]:
    """Every way in which keys can be hidden and that was found right."""
    found: list[tuple[Form, dict[str, Any]]] = []
    wrong = {
        "mask_inverted",
        "mask_after_softmax",
        "mask_times_scores",
        "mask_fill_too_small",
        "not_inplace",
        "pad_on_query",
        "mask_bool_as_float",
        "mask_fold_order",
        "mask_float_as_bool",
        "mask_sign_inf",
    }
    if wrong & {n for n, f in diagnosis.findings.found.items() if f.kind == "mistake"}:
        return []
    found += [(form, {"masked": True}) for form in diagnosis.masked.values()]
    if diagnosis.interface.has("causal") and diagnosis.causal_choice is not None:
        found.append((diagnosis.form, {"causal": True}))
    elif diagnosis.form.causal:
        found.append((diagnosis.form, {}))
    return found


def _features(diagnosis: Diagnosis, form: Form, features: dict[str, Any]) -> dict[str, Any]:
    extra = dict(features)
    if extra.pop("masked", False):
        extra |= diagnosis.attention.mask(form, SQUARE)
    return extra


def _fill(diagnosis: Diagnosis) -> None:
    """Hidden keys whose scores are the largest by far."""
    if "no_max" in diagnosis.findings.found:
        return
    for form, features in _maskings(diagnosis):
        if form.mask_kind == "additive" and "masked" in features:
            continue
        extra = _features(diagnosis, form, features)
        choice = {**diagnosis.choices[0], **(diagnosis.causal_choice or {} if "causal" in features else {})}
        attention = diagnosis.attention
        for seed in range(20):
            case = _scaled(attention.case(form, SQUARE, seed=seed, **extra), 150.0)
            right = attention.predict(form, case, choice)
            factor = (4e4 / max(float(np.abs(right.raw).max()), 1e-6)) ** 0.5
            case = _scaled(case, factor)
            right = attention.predict(form, case, choice)
            leaks = attention.predict(form, case, {**choice, "mask": "mask_fill_too_small:-1e4"})
            shifted = attention.predict(form, case, {**choice, "mask": "mask_fill_too_small:+-1e4"})
            if min(difference(x.output, right.output) for x in (leaks, shifted)) < 1e-2:
                continue
            error = attention.error(form, right, diagnosis.attention.one(form, case))
            if error is not None and np.isfinite(error) and error > 1e-3 and _shows(diagnosis, form, case, right):
                diagnosis.findings.add(
                    "mask_fill_too_small", example={"input": "scores of about ±40000, the largest of them hidden"}
                )
            break


def _shows(diagnosis: Diagnosis, form: Form, case: Case, parts: Parts) -> bool:
    """Whether another value at a hidden key changes the output; where values stand by themselves."""
    attention = diagnosis.attention
    if form.roles != ("q", "k", "v") or form.returns == "weights":
        return True
    cases = [case]
    for key in range(case.v.shape[-2]):
        v = case.v.copy()
        v[..., key, :] += 1
        cases.append(replace(case, v=v))
    outcomes = attention.run([attention.call(form, one) for one in cases])
    plain, *moved = (attention.observed(form, parts, outcome) for outcome in outcomes)
    hidden = np.isneginf(parts.scores)
    for key, seen in enumerate(moved):
        rows = hidden[..., key] if parts.output.ndim == 4 else hidden[..., key].all(1)
        if plain is not None and seen is not None and np.abs((seen - plain)[rows]).max(initial=0) > 1e-3:
            return True
    return False


def _with_row(diagnosis: Diagnosis, form: Form) -> tuple[dict[str, Any], tuple[Any, ...]] | None:
    """A mask one of whose rows, or samples, hides everything; and where."""
    extra = diagnosis.attention.mask(form, SQUARE)
    keep = np.array(extra["keep"])
    if form.mask_shape in ("lengths", "BS", "B1S", "B11S", "S", "1S"):
        if len(keep) < 2:
            return None
        keep[0] = False
        where: tuple[Any, ...] = (0,)
    else:
        keep[0, 0, 1] = False
        where = (0, slice(None), 1)
    if "padding" in extra:
        extra["padding"] = keep[:, 0, 0]
    return {**extra, "keep": keep}, where


def _row(
    diagnosis: Diagnosis, form: Form, case: Case, where: tuple[Any, ...], **extra: Any
) -> tuple[np.ndarray, np.ndarray] | None:
    """What the candidate returns for rows that see nothing, and the mean of all values there."""
    outcome = diagnosis.attention.one(form, case, **extra)
    parts = diagnosis.attention.predict(form, case, {})
    seen = diagnosis.attention.observed(form, parts, outcome)
    mean = diagnosis.attention.predict(form, replace(case, keep=None, causal=False, q=case.q * 0), {})
    if seen is None or form.returns == "weights":
        return None
    at = where if seen.ndim == 4 or len(where) == 1 else (where[0], where[2])
    return seen[at], mean.output[at]


def _empty_rows(diagnosis: Diagnosis) -> None:
    for role_name, form in diagnosis.masked.items():
        made = _with_row(diagnosis, form)
        if made is None or (role_name == "lengths" and form.mask_shape != "lengths"):
            continue
        extra, where = made
        if extra.get("additive") and not form.mask_number:
            form = replace(form, mask_number=False)
        found = _row(diagnosis, form, diagnosis.attention.case(form, SQUARE, **extra), where)
        if found is None:
            continue
        seen, mean = found
        says = "zero"
        if np.isnan(seen).any():
            diagnosis.findings.add("full_row_nan")
            says = "NaN"
        elif difference(seen, mean) < 1e-4 and diagnosis.attention.instance is None:
            says = "the mean of all values"
        elif np.abs(seen).max() > 1e-6 and diagnosis.attention.instance is None:
            says = "what the hidden keys give"
        elif diagnosis.attention.instance is not None:
            says = "finite"
        diagnosis.findings.convention["rows that see nothing"] = says
        return


def _twice_masked(diagnosis: Diagnosis) -> None:
    """Keys hidden by two masks at once, in float32: the sum of two minima is −∞."""
    face, attention = diagnosis.interface, diagnosis.attention
    minimum = face.code + face.description["helpers"]
    if not re.search(r"finfo|\.min\b|3\.4\d*e\+?38", minimum) or not diagnosis.masked:
        return
    pair = [r for r in ("mask", "padding") if r in diagnosis.masked]
    form = diagnosis.masked[pair[-1]] if pair else next(iter(diagnosis.masked.values()))
    extra = attention.mask(form, SQUARE)
    keep = np.zeros_like(np.array(extra["keep"]))
    if "padding" in extra:
        extra["padding"] = keep[:, 0, 0]
    always = diagnosis.form.causal
    if not (face.has("causal") or always or len(pair) == 2):
        return
    case = attention.case(form, SQUARE, **{**extra, "keep": keep, "causal": face.has("causal") or always})
    # A module is in float64, whose minimum overflows alike.
    call, arrays = attention.call(form, case, **({} if attention.instance else {"dtype": "float32"}))
    if len(pair) == 2:
        other = diagnosis.masked[pair[0]]
        hidden = attention.case(other, SQUARE, keep=keep, additive=other.mask_kind == "additive")
        _, more = attention.call(other, hidden)
        arrays["other"] = more["mask"]
        call["kwargs"][face.by_role[pair[0]].name] = {"array": "other"}
    seen = attention.observed(form, attention.predict(form, case, {}), attention.run([(call, arrays)])[0])
    if seen is None:
        return
    broken = bool(np.isnan(seen).any())
    if not broken and len(pair) != 2 and attention.instance is None:
        # Where all is hidden once or twice, keys that are hidden twice should weigh as much as the others.
        causal = attention.predict(form, replace(case, keep=None, q=case.q * 0), {})
        evenly = attention.predict(form, replace(case, keep=None, q=case.q * 0, causal=False), {})
        broken = difference(seen, causal.output) < 1e-4 < difference(seen, evenly.output)
    if broken:
        diagnosis.findings.add(
            "mask_finfo_sum", example={"input": "a sample all of whose keys are hidden by both masks, float32"}
        )
        diagnosis.findings.found.pop("full_row_nan", None)


def _nan_behind(diagnosis: Diagnosis) -> None:
    """NaN in a value that nobody may see."""
    attention = diagnosis.attention
    if attention.instance is not None and attention.instance.projections is not None:
        return
    for form, features in _maskings(diagnosis)[:1]:
        extra = _features(diagnosis, form, features)
        if "keep" in extra:
            keep = np.array(extra["keep"])
            keep[..., 2] = False
            keep[..., 0] = True
            extra["keep"] = keep
            if "padding" in extra:
                if form.mask_shape == "lengths":
                    keep[..., 3:] = False
                    keep[..., :2] = True
                extra["padding"] = keep[:, 0, 0]
            at = 2
        else:
            at = -1
        case = attention.case(form, SQUARE, **extra)
        if case.v is case.q or case.v is case.k:
            return
        v = case.v.copy()
        v[..., at, :] = np.nan
        outcome = diagnosis.attention.one(form, replace(case, v=v))
        seen = attention.observed(form, attention.predict(form, case, {}), outcome)
        if seen is None:
            continue
        rows = seen if "keep" in extra else (seen[..., :-1, :])
        if np.isnan(rows).any():
            diagnosis.findings.add("nan_in_masked_value")


def _half(diagnosis: Diagnosis) -> None:
    """Half precision: what fills hidden scores, and where the softmax is computed."""
    attention, form = diagnosis.attention, diagnosis.form
    if attention.instance is None:
        case = attention.case(
            form, Size(T=8, S=64) if diagnosis.wide and form.roles not in (("x",), ("qkv",)) else SQUARE
        )
        case = _scaled(case, 2.0)
        case = replace(case, **{n: getattr(case, n).astype(np.float16).astype(np.float64) for n in ("q", "k", "v")})
        outcome = diagnosis.attention.one(form, case, dtype="float16")
        error = attention.error(form, diagnosis.parts(form, case), outcome)
        if error is not None and error > 4e-3:
            diagnosis.findings.add(
                "softmax_low_precision",
                kind="risk",
                example={"input": "float16, 64 keys", "error": f"{error:.1e} of the largest value"},
            )
    for masked, features in _maskings(diagnosis):
        if masked.mask_kind == "additive" and "masked" in features:
            continue
        extra = _features(diagnosis, masked, features)
        case = attention.case(masked, SQUARE, **extra)
        outcome, plain = (diagnosis.attention.one(masked, case, dtype=d) for d in ("float16", "float32"))
        parts = attention.predict(masked, case, {})
        if plain.error is not None:
            continue
        failed = outcome.error is not None and re.search(
            r"overflow|half|out of range|float16", outcome.error["message"], re.IGNORECASE
        )
        seen, good = attention.observed(masked, parts, outcome), attention.observed(masked, parts, plain)
        lost = seen is not None and good is not None and bool((np.isnan(seen) & ~np.isnan(good)).any())
        made = _with_row(diagnosis, masked) if "masked" in features else None
        if not failed and not lost and made is not None:
            empty = attention.case(masked, SQUARE, **made[0])
            row, narrow = (
                _row(diagnosis, masked, empty, made[1]),
                _row(diagnosis, masked, empty, made[1], dtype="float16"),
            )
            lost = (
                row is not None
                and narrow is not None
                and bool(np.isnan(narrow[0]).any())
                and not np.isnan(row[0]).any()
            )
        if failed or lost:
            diagnosis.findings.add("mask_fp16_overflow", line=(outcome.error or {}).get("line"))


PROBES = (_large, _fill, _empty_rows, _twice_masked, _nan_behind, _half)
