"""Symptoms that are not in the numbers of one call."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from overt.check import edges, layouts
from overt.check.attention import SQUARE, WIDE, Instance, Size, difference
from overt.check.diagnosis import Diagnosis
from overt.check.instances import _constructor_role, build
from overt.check.roles import role
from overt.check.search import LOOSE, TIGHT


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
        probes += [*edges.PROBES, _lengths, _dtype, _gradients, _memory]
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
        shape = diagnosis.parts(form, case).weights.shape
        for (_, array, _), (_, clean, _) in list(zip(got[0].outputs, got[2].outputs, strict=False))[1:]:
            seen, quiet = (layouts.take_weights(x, form.layout, shape) for x in (array, clean))
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
            changed |= set(diagnosis.attention.one(form, case).changed)
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
    parts = [diagnosis.parts(form, case) for case in (first, second)]
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


def _lengths(diagnosis: Diagnosis) -> None:
    """Values that are fewer than keys."""
    attention, form = diagnosis.attention, diagnosis.form
    if form.roles != ("q", "k", "v") or form.layout in ("D",):
        return
    case = attention.case(form, WIDE if diagnosis.wide else SQUARE)
    short = replace(case, v=case.v[..., :-2, :])
    outcome = diagnosis.attention.one(form, short)
    if outcome.error is None and attention.observed(form, diagnosis.parts(form, case), outcome) is not None:
        diagnosis.findings.add(
            "kv_len_mismatch", kind="risk", example={"input": f"{case.k.shape[-2]} keys, {case.k.shape[-2] - 2} values"}
        )


def _dtype(diagnosis: Diagnosis) -> None:
    if diagnosis.attention.instance is not None:
        return
    case = diagnosis.attention.case(diagnosis.form, SQUARE)
    outcome = diagnosis.attention.one(diagnosis.form, case, dtype="float32")
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
    outcome = diagnosis.attention.one(form, case, grad=True)
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
    exact = attention.error(form, diagnosis.parts(form, case), outcome)
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
                outcome = diagnosis.attention.one(form, case, weigh=True)
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
