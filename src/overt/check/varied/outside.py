"""What cannot be recorded, such as loops over numbers of Python, is asked from outside.

The output is linear in the values: with ones at one key and zeros at all others it is the weight of that key.  Weights
that were come by so are judged like recorded ones, as what became of the products of queries and keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from overt.check.calls.call import Guess, is_floats
from overt.check.report import Entry
from overt.check.steps.judged import UNKNOWN, Fault
from overt.check.steps.judging import judge
from overt.check.varied.asking import Caller, Way
from overt.recorder.operations import Line, Operation

# What was done, where nothing but the result is known.
_UNSEEN = "seen from outside"
_SAME = 1e-6
# By so much weights sum to something else than 1.
_SHARE = 1e-3
# By so much scores are so large that exp of them is infinite, unless their maximum is subtracted.
_LARGE = 1e4


def read(caller: Caller, guess: Guess) -> dict[str, Any]:
    """What a call comes to, as a recording's is told; an empty dictionary where it shows no attention from outside."""
    kinds = guess.by_name
    given = {name: x for name, x in caller.arrays(guess).items() if is_floats(kinds.get(name, "")) and x.ndim}
    plain = _output(caller, Way(guess))
    if plain is None or not plain.any() or len(given) < 3:
        # What is nothing but zeros is linear in all that it is given.
        return {}
    linear = [name for name, x in given.items() if _linear(caller, guess, name, x, plain)]
    for name in linear[::-1]:
        weights = _weights(caller, guess, name, given[name], plain)
        if weights is None:
            continue
        heads = weights.shape[-3] if weights.ndim == plain.ndim + 1 and weights.ndim > 2 else 1
        split = {other: _by_head(x, heads) for other, x in given.items() if heads == 1 or x.ndim > 1}
        others = [x for other, x in split.items() if other != name]
        pair = next(((q, k) for q in others for k in others if _fit(q, k, weights)), None)
        if pair is not None:
            asking = next(other for other, x in split.items() if x is pair[0])
            silent = {asking: np.zeros_like(given[asking])}
            mean = _output(caller, Way(guess, silent))
            bare = None if mean is None else _weights(caller, guess, name, given[name], mean, silent)
            bare = bare if bare is not None and bare.shape == weights.shape else None
            units = _units(pair)
            raw, of_units = (q @ k.swapaxes(-1, -2) for q, k in (pair, units))
            if not _shares(raw, weights)[2].all() and _shares(of_units, weights)[2].all():
                # Cosines.
                pair = units
            steps = _scores(pair[0] @ pair[1].swapaxes(-1, -2), weights, bare)
            # Where one key alone has weight, no query can change that.
            several = bool(((weights > 0).sum(-1) > 1).any())
            idle = several and bare is not None and np.allclose(bare, weights, rtol=_SAME, atol=_SAME)
            return _judged(caller, guess, pair, split[name], [*steps, (_UNSEEN, weights)], given[asking], idle=idle)
    return {}


def _units(pair: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Queries and keys of length 1."""
    q, k = (x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-12) for x in pair)
    return q, k


def _output(caller: Caller, way: Way) -> np.ndarray | None:
    (answer,) = caller.ask([way])
    return answer.outputs[0] if answer.outputs and not answer.failed else None


def _linear(caller: Caller, guess: Guess, name: str, x: np.ndarray, plain: np.ndarray) -> bool:
    doubled = _output(caller, Way(guess, {name: 2 * x}))
    return doubled is not None and doubled.shape == plain.shape and np.allclose(doubled, 2 * plain, rtol=_SAME)


def _weights(
    caller: Caller,
    guess: Guess,
    name: str,
    values: np.ndarray,
    plain: np.ndarray,
    others: Mapping[str, np.ndarray] | None = None,
) -> np.ndarray | None:
    """(..., queries, keys), (keys,) of one query, or (..., heads, queries, keys) of heads that lie side by side.

    None where the output is no such mixture of the values.  others: arrays beside them that are not those of the guess.
    """
    if values.ndim < 2 or plain.shape[-1:] != values.shape[-1:] or plain.ndim < 1:
        return None
    rows = []
    for key in range(values.shape[-2]):
        ones = np.zeros_like(values)
        ones[..., key, :] = 1
        row = _output(caller, Way(guess, {**(others or {}), name: ones}))
        if row is None or row.shape != plain.shape or not np.isfinite(row).all():
            return None
        rows.append(row)
    width = values.shape[-1]
    for heads in (n for n in range(1, width) if width % n == 0):
        if heads > 1 and plain.ndim < 2:
            continue
        made = [_by_head(row, heads) for row in rows]
        if not all(np.allclose(row, row[..., :1], rtol=_SAME, atol=1e-9) for row in made):
            continue
        weights = np.stack([row[..., 0] for row in made], axis=-1)
        try:
            mixed = weights @ _by_head(values, heads)
        except ValueError:
            return None
        right = _by_head(plain, heads)
        return weights if mixed.shape == right.shape and np.allclose(mixed, right, rtol=1e-5, atol=1e-8) else None
    return None


def _by_head(x: np.ndarray, heads: int) -> np.ndarray:
    """(..., positions, width) as (..., heads, positions, width of a head); itself where there is one head."""
    return x if heads == 1 or x.shape[-1] % heads else x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


def _fit(q: np.ndarray, k: np.ndarray, weights: np.ndarray) -> bool:
    """Whether the products of two arrays are as many as the weights."""
    if q is k or k.ndim < 2 or q.shape[-1] != k.shape[-1]:
        return False
    try:
        return bool((q @ k.swapaxes(-1, -2)).shape == weights.shape)
    except ValueError:
        return False


def _judged(
    caller: Caller,
    guess: Guess,
    pair: tuple[np.ndarray, np.ndarray],
    values: np.ndarray,
    steps: Sequence[tuple[str, np.ndarray]],
    asking: np.ndarray,
    *,
    idle: bool,
) -> dict[str, Any]:
    """The weights, and what comes before them, as operations on the products of queries and keys, judged.

    asking: the queries as given; idle: whether these change no weight.
    """
    (q, k), weights = pair, steps[-1][1]
    turned = k.swapaxes(-1, -2)
    raw, mixed = q @ turned, weights @ values
    described = caller.face.description
    line = Line(described["file"], described["line"]) if described["file"] else None

    def made(name: str, host: np.ndarray, *of: tuple[int | None, np.ndarray, str]) -> Operation:
        sources, operands, origins = zip(*of, strict=True)
        return Operation(name, sources, operands, host, host, line, "", origins)

    operations = [
        made("swapaxes", turned, (None, k, "argument 1")),
        made("matmul", raw, (None, q, "argument 0"), (0, turned, "")),
    ]
    for name, step in steps:
        operations.append(made(name, step, (len(operations) - 1, operations[-1].host, "")))
    operations.append(made("matmul", mixed, (len(operations) - 1, weights, ""), (None, values, "argument 2")))
    intents = caller.face.intents
    judged = judge(operations, [mixed], causal=intents.get("causal"), intended=intents)
    fits = len(steps) > 1 or _shares(raw, weights)[2].any()
    if "unknown" in {fault.mistake for fault in judged.faults} and not fits:
        # Of these products no row is made: others are, which are not seen from here.
        return {}
    sums = weights.reshape(-1, weights.shape[-1])[_shares(raw, weights)[2]].sum(1)
    told = None
    if not judged.faults and idle:
        told = ("scores", UNKNOWN, "The queries change no weight.")
    elif not judged.faults and len(sums) and np.abs(sums - 1).min() > _SHARE:
        told = ("softmax", UNKNOWN, f"The weights of a query sum to {sums[0]:.4g}, and not to 1.")
    elif not judged.faults and _overflows(caller, guess, asking):
        says = "exp is taken without subtracting the maximum of the row: with large scores the output is no number."
        told = ("stability", "no_max", says)
    if told is not None:
        where, mistake, why = told
        number, file = (None, "") if line is None else (line.number, line.file)
        judged.faults.append(Fault(where, mistake, number, file, why))
        judged.ledger.append(Entry(where, "failed", why, number, mistake))
    return {
        "cores": judged.cores,
        "faults": [asdict(fault) for fault in judged.faults],
        "ledger": [asdict(entry) for entry in judged.ledger],
        "facts": judged.facts,
        "shapes": [list(mixed.shape)],
    }


def _scores(raw: np.ndarray, weights: np.ndarray, bare: np.ndarray | None) -> list[tuple[str, np.ndarray]]:
    """What comes between the products of queries and keys and the weights; bare: the weights of queries that are 0."""
    return (_biased(raw, weights, bare) if bare is not None else []) or _filled(raw, weights)


def _biased(raw: np.ndarray, weights: np.ndarray, bare: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Products with their factor, what is added to them, and what is hidden, where queries of 0 show the second."""
    seen = bare > 0
    if (seen != (weights > 0)).any() or not seen.any(-1).all():
        return []

    def centred(x: np.ndarray) -> np.ndarray:
        mean = np.where(seen, x, 0).sum(-1, keepdims=True) / seen.sum(-1, keepdims=True)
        return np.where(seen, x - mean, 0)

    # What is hidden is nearly 0, on either side.
    scores, bias = (centred(np.log(np.where(seen, x, 1))) for x in (weights, bare))
    products = centred(raw)
    if not products.any():
        return []
    factor = ((scores - bias) * products).sum() / (products**2).sum()
    if np.abs(bias).max() < _SAME or np.abs(scores - bias - factor * products).max() > _SAME:
        return []
    made = raw * factor + bias
    hidden = [] if seen.all() else [(_UNSEEN, np.where(seen, made, -np.inf))]
    return [(_UNSEEN, raw * factor), ("add", made), *hidden]


def _filled(raw: np.ndarray, weights: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Products with their factor, and the scores, where some rows of weights are a softmax of the products and more is
    done to the others; nothing where all rows are alike.
    """
    products = raw.reshape(-1, raw.shape[-1])
    logs, factors, fits = _shares(raw, weights)
    if fits.all() or not fits.any() or np.ptp(factors[fits]) > _SAME:
        return []
    scaled = products * factors[fits][0]
    # A row's own constant is what most cells that are products still lack, or else what all those have that are not.
    missing = [_common(row) for row in logs - scaled]
    if all(two < 2 for _, two in missing):
        return []
    others = [_common(np.where(np.isclose(row - b, of, atol=_SAME), np.nan, row - b))[0]
              for row, of, (b, count) in zip(logs, scaled, missing, strict=True) if 1 < count < len(row)]  # fmt: skip
    if not others:
        return []
    fill = _common(np.array(others))[0]
    own = [b if count > 1 else _common(row)[0] - fill for row, (b, count) in zip(logs, missing, strict=True)]
    scores = logs - np.array(own)[:, None]
    # What is cleared is zero, and not what rounding makes of it.
    scores = np.where(np.abs(scores) < _SAME, 0, scores)
    return [(_UNSEEN, scaled.reshape(raw.shape)), (_UNSEEN, scores.reshape(raw.shape))]


def _shares(raw: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of rows of weights their logs, the factor of the products in them, and whether they are a softmax of these."""
    products, shares = raw.reshape(-1, raw.shape[-1]), weights.reshape(-1, raw.shape[-1])
    if raw.shape[-1] < 3 or not (shares > 0).all():
        return shares, np.zeros(len(shares)), np.zeros(len(shares), bool)
    logs = np.log(shares)
    centred, above = (x - x.mean(1, keepdims=True) for x in (products, logs))
    factors = (centred * above).sum(1) / (centred**2).sum(1)
    return logs, factors, np.abs(above - factors[:, None] * centred).max(1) < _SAME


def _common(row: np.ndarray) -> tuple[float, int]:
    """The commonest number, but for rounding, and how often it is there."""
    alike = np.isclose(row[:, None], row, atol=_SAME).sum(1)
    best = int(alike.argmax())
    return float(row[best]), int(alike[best])


def _overflows(caller: Caller, guess: Guess, q: np.ndarray) -> bool:
    """Whether large queries make a call fail that works, or give what is no number."""
    name = next(name for name, x in caller.arrays(guess).items() if x.shape == q.shape and np.array_equal(x, q))
    (answer,) = caller.ask([replace(Way(guess), arrays={name: q * _LARGE})])
    if answer.failed:
        return answer.reply["error"]["type"] in ("OverflowError", "ZeroDivisionError", "FloatingPointError")
    return bool(answer.outputs) and not np.isfinite(answer.outputs[0]).all()
