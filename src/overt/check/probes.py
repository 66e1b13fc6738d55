"""Symptoms that are not in the numbers of one call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check import layouts
from overt.check.attention import SQUARE, WIDE, Form, Instance, Outcome, Size, difference
from overt.check.diagnosis import Diagnosis
from overt.check.instances import _constructor_role, build
from overt.check.interface import role
from overt.check.search import LOOSE, TIGHT
from overt.check.steps import Case, Parts

_SOFT = ("softmax_missing", "no_exp_norm", "softmax_partial_max", "softmax_partial_max:denominator")


def before(diagnosis: Diagnosis) -> None:
    """What must be known to compute numbers at all: globals read instead of arguments."""
    diagnosis.attention.still = True
    description, face = diagnosis.interface.description, diagnosis.interface
    if "infty" in face.code and re.search(r"np\.infty", face.code):
        diagnosis.findings.add(
            "removed_name",
            kind="mistake",
            message="np.infty no longer exists in NumPy 2.",
            mend="Write np.inf.",
            look=r"infty",
        )
    unused = unread(description["source"])
    for name in description["globals"]:
        wanted = role(name)
        argument = next(
            (
                a
                for a in face.arguments
                if (a.name in unused and (a.role == wanted or a.name.startswith(name) or name.startswith(a.name)))
                or (a.role == wanted and a.role in ("q", "k", "v", "x", "context"))
            ),
            None,
        )
        if argument is not None and argument.role is not None:
            key = {"x": "q", "context": "k"}.get(argument.role, argument.role)
            diagnosis.attention.patch[name] = key
            diagnosis.findings.add(
                "global_read", kind="mistake", look=rf"\b{name}\b",
                message=f"It reads the global {name} instead of its argument {argument.name}.",
                mend=f"Use {argument.name} in the body.",
            )  # fmt: skip


def unread(source: str) -> set[str]:
    """Arguments of a function that its body never reads."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return set()
    function = tree.body[0] if tree.body else None
    if not isinstance(function, ast.FunctionDef):
        return set()
    names = {a.arg for a in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]}
    read = {
        n.id
        for part in function.body
        for n in ast.walk(part)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)
    }
    return names - read


def after(diagnosis: Diagnosis) -> None:
    """Everything else, each probe by itself; one that cannot be made says nothing."""
    attention = diagnosis.attention
    if attention.instance is not None:
        _unregistered(diagnosis, attention.instance)
    if not diagnosis.understood:
        _random_unknown(diagnosis)
        return
    probes: list[Callable[[Diagnosis], None]] = [_dropout, _changed, _state]
    if not diagnosis.findings.found.get("unknown"):
        probes += [_large, _fill, _empty_rows, _twice_masked, _nan_behind, _half, _lengths, _dtype, _gradients]
        probes += [_memory]
    for probe in probes:
        if {"cache_key", "state"} & set(diagnosis.findings.found):
            # What a call returns depends on the one before, so no more can be learnt from calls.
            break
        try:
            probe(diagnosis)
        except (ValueError, IndexError, KeyError):
            continue
    if attention.printed:
        diagnosis.findings.add(
            "prints", kind="risk", message="It prints while it computes.",
            mend="Leave out print, or use logging.", look=r"print|stdout",
        )  # fmt: skip


def _one(diagnosis: Diagnosis, form: Form, case: Case, **extra: Any) -> Outcome:
    return diagnosis.attention.run([diagnosis.attention.call(form, case, **extra)])[0]


def _unregistered(diagnosis: Diagnosis, instance: Instance) -> None:
    lost = [row["path"] for row in instance.rows if not row["registered"]]
    if lost:
        diagnosis.findings.add(
            "python_list",
            message=f"{len(lost)} parameters are not registered (such as {', '.join(lost[:3])}): "
            "the layers are in a plain list or dict, so nothing trains, moves or saves them.",
        )


def _random_unknown(diagnosis: Diagnosis) -> None:
    """Two calls that differ explain numbers that nothing explains."""
    found = diagnosis.findings.found
    if "unknown" not in found:
        return
    form = diagnosis.form
    case = diagnosis.attention.case(form, SQUARE)
    diagnosis.attention.still = False
    call = diagnosis.attention.call(form, case)
    first, second = diagnosis.attention.run([call, call])
    if first.main is not None and second.main is not None and _differ(first.main, second.main):
        del found["unknown"]
        diagnosis.findings.add("dropout_eval", certain=False)


def _differ(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape != b.shape or difference(a, b) > 1e-6


def _parts(diagnosis: Diagnosis, form: Form, case: Case) -> Parts:
    return diagnosis.attention.predict(form, case, diagnosis.choices[0])


def _dropout(diagnosis: Diagnosis) -> None:
    attention, face, form = diagnosis.attention, diagnosis.interface, diagnosis.form
    kept = attention.instance
    asks: dict[str, Any] = {}
    maker = diagnosis.rebuild
    if kept is not None and maker is not None:
        if any(_constructor_role(a.name) in ("drop", "config") for a in maker.arguments):
            made = build(attention.session, maker, evaluate=False, drop=0.5)
            if isinstance(made, Instance):
                attention.instance = made
    elif face.has("drop") and (face.has("training") or face.has("deterministic")):
        asks["drop"] = {"value": 0.5}
    elif face.has("drop"):
        default = face.by_role["drop"].default
        asks["drop"] = {"value": default if isinstance(default, float) else 0.0}
    case = attention.case(form, SQUARE)
    want = {"want_weights": {"value": True}} if face.has("want_weights") else {}
    attention.still = False
    still = attention.call(form, case, ask=asks)
    active = attention.call(
        form, case, ask={**asks, **want, "training": {"value": True}, "deterministic": {"value": False}}
    )
    active[0]["train"] = True
    calls = [(dict(c[0], seed=n), c[1]) for n, c in enumerate([active, active, still, still, active, active])]
    got = attention.run(calls)
    attention.instance, attention.still = kept, True
    mains = [o.main for o in got]
    if mains[2] is not None and mains[3] is not None and _differ(mains[2], mains[3]):
        if "python_list" not in diagnosis.findings.found:
            # Layers that are not registered hear nothing of eval(): that is the same mistake.
            diagnosis.findings.add("dropout_eval")
        return
    known = [m for m in mains if m is not None]
    if len(known) == 6 and _differ(known[0], known[1]) and not _differ(known[4], known[5]):
        diagnosis.findings.add("dropout_stuck_off")
    if mains[0] is not None and mains[1] is not None and _differ(mains[0], mains[1]):
        shape = _parts(diagnosis, form, case).weights.shape
        for (_, array, _), (_, calm, _) in list(zip(got[0].outputs, got[2].outputs, strict=False))[1:]:
            seen, quiet = (layouts.take_weights(x, form.layout, shape) for x in (array, calm))
            if (
                seen
                and quiet
                and np.allclose(quiet[0].sum(-1), 1, atol=1e-4)
                and not np.allclose(seen[0].sum(-1), 1, atol=1e-3)
            ):
                diagnosis.findings.add("weights_after_dropout")


def _changed(diagnosis: Diagnosis) -> None:
    changed = {name for t in diagnosis.base_trials for name in t.outcome.changed}
    for form in diagnosis.masked.values():
        # A mask of numbers is changed where one of booleans is copied first.
        for number in (False, True):
            form = replace(form, mask_number=number)
            case = diagnosis.attention.case(form, SQUARE, **diagnosis.attention.mask(form, SQUARE))
            changed |= set(_one(diagnosis, form, case).changed)
    if changed:
        names = ", ".join(
            sorted(
                {"q": "the query", "k": "the keys", "v": "the values", "mask": "the mask"}.get(n, n) for n in changed
            )
        )
        diagnosis.findings.add(
            "inplace", message=f"It changes what it was given ({names}), so a second call sees other inputs."
        )


def _state(diagnosis: Diagnosis) -> None:
    """The same keys and values with another query, and the first query again."""
    attention, form = diagnosis.attention, diagnosis.form
    if form.roles in (("x",), ("qkv",), ("q",)) or "inplace" in diagnosis.findings.found:
        return
    first = attention.case(form, SQUARE)
    second = replace(first, q=attention.case(form, SQUARE, seed=5).q)
    calls = [attention.call(form, case) for case in (first, second, first)]
    renamed = []
    for number, (call, arrays) in enumerate(calls):
        name = f"q{number}"
        call["args"] = [{"array": name} if a == {"array": "q"} else a for a in call["args"]]
        call["kwargs"] = {n: {"array": name} if a == {"array": "q"} else a for n, a in call["kwargs"].items()}
        renamed.append((call, {name if key == "q" else key: value for key, value in arrays.items()}))
    a, b, c = attention.run(renamed, same=True)
    if a.main is None or b.main is None or c.main is None:
        return
    parts = [_parts(diagnosis, form, case) for case in (first, second)]
    errors = [
        attention.error(form, parts[0], a),
        attention.error(form, parts[1], b),
        attention.error(form, parts[0], c),
    ]
    if any(e is None for e in errors):
        return
    if errors[0] <= LOOSE < errors[1] and not _differ(a.main, b.main):  # type: ignore[operator]
        diagnosis.findings.add("cache_key")
    elif _differ(a.main, c.main) and "dropout_eval" not in diagnosis.findings.found:
        diagnosis.findings.add(
            "state", kind="mistake",
            message="A call changes what the next one returns: the same inputs give another output.",
            mend="Keep nothing between calls, or reset it.",
        )  # fmt: skip


def _loud(
    diagnosis: Diagnosis, form: Form, peak: float, spread: float, size: Size = SQUARE, **features: Any
) -> Case | None:
    """A case whose largest score is about ``peak`` and the lowest row's largest at least so much below, or alike."""
    attention = diagnosis.attention
    for seed in range(60):
        case = attention.case(form, size, seed=seed, **features)
        if spread < 0 and not features:
            case = _alike(case)
        scores = _parts(diagnosis, form, case).scores
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
        outcome = _one(diagnosis, form, case)
        parts = _parts(diagnosis, form, case)
        seen = diagnosis.attention.observed(form, parts, outcome)
        expected = parts.weights if form.returns == "weights" else parts.output
        broken.append(seen is not None and not np.isfinite(seen).all() and bool(np.isfinite(expected).all()))
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
            error = attention.error(form, right, _one(diagnosis, form, case))
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
    outcome = _one(diagnosis, form, case, **extra)
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
        outcome = _one(diagnosis, form, replace(case, v=v))
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
        outcome = _one(diagnosis, form, case, dtype="float16")
        error = attention.error(form, _parts(diagnosis, form, case), outcome)
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
        outcome, plain = (_one(diagnosis, masked, case, dtype=d) for d in ("float16", "float32"))
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


def _lengths(diagnosis: Diagnosis) -> None:
    """Values that are fewer than keys."""
    attention, form = diagnosis.attention, diagnosis.form
    if form.roles != ("q", "k", "v") or form.layout in ("D",):
        return
    case = attention.case(form, WIDE if diagnosis.wide else SQUARE)
    short = replace(case, v=case.v[..., :-2, :])
    outcome = _one(diagnosis, form, short)
    if outcome.error is None and attention.observed(form, _parts(diagnosis, form, case), outcome) is not None:
        diagnosis.findings.add(
            "kv_len_mismatch", kind="risk", example={"input": f"{case.k.shape[-2]} keys, {case.k.shape[-2] - 2} values"}
        )


def _dtype(diagnosis: Diagnosis) -> None:
    if diagnosis.attention.instance is not None:
        return
    case = diagnosis.attention.case(diagnosis.form, SQUARE)
    outcome = _one(diagnosis, diagnosis.form, case, dtype="float32")
    if outcome.error is None and outcome.outputs and outcome.outputs[0][2] not in ("float32", "int"):
        got = outcome.outputs[0][2]
        diagnosis.findings.add(
            "dtype_changed", kind="risk", message=f"float32 goes in and {got} comes out.",
            mend="In NumPy, divide by a Python float (math.sqrt), not by np.sqrt, whose result is a float64.",
            look=r"sqrt|astype|dtype|float",
        )  # fmt: skip


def _gradients(diagnosis: Diagnosis) -> None:
    """Gradients that are cut, and gradients that are not the slope of the output."""
    attention, form = diagnosis.attention, diagnosis.form
    if diagnosis.interface.description["backend"] != "torch" or "softmax_low_precision" in diagnosis.findings.found:
        return
    case = attention.case(form, SQUARE)
    outcome = _one(diagnosis, form, case, grad=True)
    if outcome.error is not None or outcome.gradients is None or not outcome.outputs:
        return
    call, arrays = attention.call(form, case)
    names = [n for n in outcome.gradients if n in ("q", "k", "v")]
    slopes = outcome.gradients
    cut = [n for n in names if (g := slopes[n]) is None or not np.abs(g).max() > 0]
    if cut:
        chosen = re.search(r"no_grad|inference_mode", diagnosis.interface.code)
        diagnosis.findings.add(
            "gradient_cut", kind="risk" if chosen else "mistake", look=r"detach|\.data|numpy\(|no_grad|inference_mode",
            message=f"No gradient reaches {', '.join(cut)}: it cannot be trained through.",
            mend="Leave out detach(), .data, .numpy() and no_grad() on the way.",
        )  # fmt: skip
        return
    exact = attention.error(form, _parts(diagnosis, form, case), outcome)
    if exact is None or exact > TIGHT:
        # Somewhere inside is less than float64, and a difference of two outputs is noise.
        return
    random = np.random.default_rng(3)
    for name in names:
        step = random.normal(size=arrays[name].shape) * 1e-5
        both = attention.run([(call, {**arrays, name: arrays[name] + sign * step}) for sign in (1, -1)])
        if both[0].main is None or both[1].main is None or both[0].outputs[0][2] != "float64":
            break
        slope = 0.0
        for (_, up, _), (_, down, _) in zip(both[0].outputs, both[1].outputs, strict=True):
            slope += float(((up - down) * np.linspace(-1, 1, up.size).reshape(up.shape)).sum()) / 2
        told = float((outcome.gradients[name] * step).sum())  # type: ignore[operator]
        if abs(slope - told) > 1e-3 * max(abs(slope), abs(told), 1e-6):
            diagnosis.findings.add(
                "gradient_wrong", kind="mistake", look=r"backward|grad|detach",
                message=f"The gradient of {name} is not the slope of the output.",
                mend="Compare with torch.autograd.gradcheck.",
            )  # fmt: skip
            break


def _memory(diagnosis: Diagnosis) -> None:
    """Arrays that grow with T · S, at lengths beyond those of any block where the code has loops."""
    attention, form, face = diagnosis.attention, diagnosis.form, diagnosis.interface
    backend = face.description["backend"]
    if backend not in ("numpy", "torch") or not diagnosis.wide or form.layout in ("BD", "D", "1BD"):
        return
    kept, maker = attention.instance, diagnosis.rebuild
    code = face.code + face.description["helpers"]
    lengths = [(64, 256)]
    if re.search(r"\b(for|while|map|vmap|fori_loop|scan)\b", code):
        lengths.append((1024, 2048))
    if kept is not None and maker is not None:
        made = build(attention.session, maker, length=lengths[-1][1])
        if not isinstance(made, Instance):
            return
        attention.instance = made
    try:
        for pair in lengths:
            weights: list[int] = []
            for n in pair:
                case = attention.case(form, Size(1, 1, 1, n, n, 4))
                outcome = _one(diagnosis, form, case, weigh=True)
                if outcome.weight is None or (weights and outcome.weight[1] > 0.5):
                    # It fails there, or takes its time; the first call may have loaded what it needs.
                    return
                weights.append(outcome.weight[0])
            ratio = pair[1] / pair[0]
            if weights[1] < pair[1] ** 2 or weights[1] < 0.6 * ratio**2 * weights[0]:
                return
    finally:
        attention.instance = kept
    diagnosis.findings.add(
        "memory_quadratic", kind="risk", look=r"softmax|exp\(|@|matmul|einsum|bmm",
        message="It holds T × S numbers at once: 256 MiB for each head and each such array at 8192 tokens in float32.",
        mend="For long sequences only: overt.attention and scaled_dot_product_attention need memory linear in length.",
    )  # fmt: skip
