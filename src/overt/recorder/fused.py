"""Attention that a library does in one call, written out as the steps of its definition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from overt.recorder.flow import VIEWS, equal, sums_to_one
from overt.recorder.operations import Operation
from overt.recorder.products import SUMMED, TIMES, product

_Value = tuple[np.ndarray, int | None, str]
_CONJUGATES = {"conj", "conjugate", "conj_physical"}


def expand(operations: Sequence[Operation]) -> tuple[list[Operation], list[int]]:
    """Operations with every fused attention written out, and of each the number that it had, or came from, before.

    The steps have the line of the call, and the last of them its result.
    """
    written, opened = Written(), set[int]()
    for _, operation in written.each(operations):
        if _real_parts(written, operation):
            continue
        # Of a call with several results the first is the output.
        key = id(operation.options)
        if operation.options and key not in opened and len(operation.operands) >= 3 and not uneven(operation):
            opened.add(key)
            steps = _product_attention if operation.name == "scaled_dot_product_attention" else _projected_attention
            steps(written, operation.options, operation.host)
        elif operation.name == "cosine_similarity" and len(operation.operands) == 2:
            _cosines(written, operation)
        elif operation.name == "einsum" and len(operation.operands) == 3 and "->" in operation.detail:
            _two_by_two(written, operation)
        elif operation.name in SUMMED:
            _gated(written, operation)
    return written.operations, written.before


def uneven(operation: Operation) -> bool:
    """Whether it is a fused attention with more keys than values, or fewer, which torch takes on some machines."""
    if operation.name != "scaled_dot_product_attention" or not operation.options:
        return False
    key, value = (operation.options[name] for name in ("key", "value"))
    return bool(key.shape[-2] != value.shape[-2])


def unsummed(operations: Sequence[Operation], apart: Mapping[int, Operation]) -> tuple[list[Operation], list[int]]:
    """Operations of which some are another first that sums over less, and then a sum; and the number of each before."""
    written = Written()
    for number, operation in written.each(operations):
        if number in apart:
            written.step("sum", operation.host, written.keep(written.moved(apart[number])))
    return written.operations, written.before


def spread(operations: Sequence[Operation], data: Sequence[bool]) -> tuple[list[Operation], list[int]] | None:
    """Operations before which what they broadcast is written out, and the number of each before; None without any.

    data: of each operation, whether its result depends on the arguments' data.
    """
    written, any_ = Written(), False
    for number, operation in written.each(operations):
        shapes = [x.shape for x in operation.operands]
        size = operation.host.size
        if len(shapes) < 2 or operation.host.ndim < 2 or operation.detail or not _broadcast(shapes, operation):
            continue
        values = list(zip(operation.operands, operation.sources, operation.origins, strict=True))
        for n, (value, before) in enumerate(zip(values, operations[number].sources, strict=True)):
            # What has one axis is no score, but what is added to the scores of all.
            if before is not None and data[before] and sum(m > 1 for m in value[0].shape) > 1 and value[0].size < size:
                x, any_ = value[0], True
                if missing := operation.host.ndim - x.ndim:
                    value = written.step("reshape", x.reshape((1,) * missing + x.shape), value)
                values[n] = written.step("broadcast_to", np.broadcast_to(x, operation.host.shape), value)
        operands, sources, origins = zip(*values, strict=True)
        written.keep(replace(operation, operands=operands, sources=sources, origins=origins))
    return (written.operations, written.before) if any_ else None


def _broadcast(shapes: Sequence[tuple[int, ...]], operation: Operation) -> bool:
    try:
        return np.broadcast_shapes(*shapes) == operation.host.shape
    except ValueError:
        return False


class Written:
    """The steps so far, and the call that is being written out."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.before: list[int] = []
        # the number that what had one before has now
        self.now: dict[int, int] = {}
        self.number = 0
        self.operation: Operation | None = None

    def each(self, operations: Sequence[Operation]) -> Iterator[tuple[int, Operation]]:
        """All in turn, by the numbers that there are now; one of which no steps are written is kept as it is."""
        for number, operation in enumerate(operations):
            self.number, self.operation = number, self.moved(operation)
            before = len(self.operations)
            yield number, self.operation
            if len(self.operations) == before:
                self.keep(self.operation)
            self.now[number] = len(self.operations) - 1

    def moved(self, operation: Operation) -> Operation:
        """One with the numbers that its sources have now."""
        sources = tuple(None if s is None else self.now[s] for s in operation.sources)
        return operation if sources == operation.sources else replace(operation, sources=sources)

    def keep(self, operation: Operation) -> _Value:
        """One as it is; gives its result."""
        self.operations.append(operation)
        self.before.append(self.number)
        return operation.host, len(self.operations) - 1, ""

    def given(self, x: np.ndarray | None, place: int) -> _Value:
        """An operand of the call: the one of these numbers, looked for from a place on."""
        assert x is not None
        assert self.operation is not None
        whole = list(zip(self.operation.operands, self.operation.sources, self.operation.origins, strict=True))
        for operand, source, origin in whole[place:] + whole[:place]:
            if operand.shape == x.shape and np.array_equal(operand, x, equal_nan=operand.dtype.kind == "f"):
                return operand, source, origin
        return x, None, ""

    def step(self, name: str, result: np.ndarray, *values: _Value, detail: str = "fused") -> _Value:
        """One step more; gives its result."""
        assert self.operation is not None
        operands = tuple(np.asarray(x) for x, _, _ in values)
        made = Operation(
            name, tuple(s for _, s, _ in values), operands, result, np.asarray(result), self.operation.line,
            detail, tuple(o for _, _, o in values),
        )  # fmt: skip
        return result, *self.keep(made)[1:]


def _cosines(written: Written, operation: Operation) -> None:
    """Two arrays divided by their norms, multiplied and summed over the axis that the result has not."""
    values = list(zip(operation.operands, operation.sources, operation.origins, strict=True))
    shape = np.broadcast_shapes(*(x.shape for x, _, _ in values))
    axis = next((i for i in range(len(shape)) if shape[:i] + shape[i + 1 :] == operation.host.shape), None)
    if axis is None:
        return
    with np.errstate(all="ignore"):
        made = [written.step("div", x / np.linalg.norm(x, axis=axis - len(shape), keepdims=True), (x, s, o))
                for x, s, o in values]  # fmt: skip
    times = written.step("mul", made[0][0] * made[1][0], *made)
    written.step("sum", operation.host, times)


def _real_parts(written: Written, operation: Operation) -> bool:
    """Write what takes the real part of a product of complex numbers with a product of real ones; whether it does.

    Re(Σ a b*) is the sum of products of the real and the imaginary parts, which lie beside each other.
    """
    values = list(zip(operation.operands, operation.sources, operation.origins, strict=True))
    if operation.name in SUMMED and len(values) == 1:
        values = [_summed_first(written, operation, values[0])]
    alone, found = operation.host.dtype.kind == "f" and values and values[0][0].dtype.kind == "c", False
    for place, (x, source, _) in enumerate(values):
        whole = None if source is None else written.operations[source].host
        real = operation.host if alone else x
        if whole is None or whole.dtype.kind != "c" or real.dtype.kind != "f" or not equal(whole.real, real):
            continue
        made = product(written.operations, source or 0)
        if made is None:
            continue
        sides, labels, out = list[_Value](), list[str](), made.labels[2]
        # The side that was conjugated is taken as it was before.
        turned = 0 if _conjugated(written.operations, made.sources[0]) else 1
        for side, each in enumerate((made.left, made.right)):
            axes, other = made.labels[side], each.conj() if side == turned else each
            kept = "".join(a for a in axes if a not in made.summed)
            laid = other.transpose([axes.index(a) for a in kept + made.summed])
            both = np.stack([laid.real, laid.imag], -1).reshape(*laid.shape[: len(kept)], -1)
            sides.append(written.step("view_as_real", both, (each, made.sources[side], made.origins[side]), detail=""))
            labels.append(kept + "Z")
        equation = f"{labels[0]},{labels[1]}->{out}"
        values[place] = written.step("einsum", real, *sides, detail=equation)
        found = True
        if alone:
            return True
    if found:
        operands, sources, origins = zip(*values, strict=True)
        written.keep(replace(operation, operands=operands, sources=sources, origins=origins))
    return found


def _summed_first(written: Written, operation: Operation, value: _Value) -> _Value:
    """What a sum of the real parts of complex numbers is the real part of; or else what is summed."""
    whole = value[0] if value[1] is None else written.operations[value[1]].host
    if whole.dtype.kind != "c" or value[0].dtype.kind != "f" or not equal(whole.real, value[0]):
        return value
    sums = (whole.sum(axis) for axis in range(whole.ndim))
    total = next((x for x in sums if equal(x.real.ravel(), operation.host.ravel())), None)
    return value if total is None else written.step("sum", total.reshape(operation.host.shape), (whole, value[1], ""))


def _conjugated(operations: Sequence[Operation], number: int | None) -> bool:
    """Whether complex numbers were conjugated at last, views aside."""
    while number is not None and operations[number].name in VIEWS:
        number = operations[number].sources[0]
    return number is not None and operations[number].name in _CONJUGATES


def _gated(written: Written, operation: Operation) -> None:
    """A sum of weights times a gate times values as one of weights times what is gated: the gate has features too."""

    def factors(number: int | None) -> list[_Value]:
        times = None if number is None else written.operations[number]
        if times is None or times.name not in TIMES or len(times.operands) != 2:
            return []
        shapes = [(1,) * (times.host.ndim - x.ndim) + x.shape for x in times.operands]
        operands = [x.reshape(shape) for x, shape in zip(times.operands, shapes, strict=True)]
        return list(zip(operands, times.sources, times.origins, strict=True))

    outer = factors(operation.sources[0] if operation.sources else None)
    for inner, other in zip([factors(source) for _, source, _ in outer], outer[::-1], strict=True):
        for weights, gate in (inner, inner[::-1]) if inner and inner[0][0].ndim == other[0].ndim else ():
            both = _varying(gate[0]) & _varying(other[0])
            if not both - _varying(weights[0]):
                continue
            whole = weights[0] * gate[0] * other[0]
            if any(equal(whole.sum(i).ravel(), operation.host.ravel()) for i in both & {*sums_to_one(weights[0])}):
                gated = written.step("mul", gate[0] * other[0], gate, other, detail="")
                times = written.step("mul", whole, weights, gated, detail="")
                written.keep(replace(operation, operands=(whole,), sources=times[1:2], origins=("",)))
                return


def _varying(x: np.ndarray) -> set[int]:
    """The axes along which the numbers are not all the same."""
    known = np.nan_to_num(x)
    return {axis for axis in range(x.ndim) if x.size and (known != known.take([0], axis)).any()}


def _two_by_two(written: Written, operation: Operation) -> None:
    """An einsum of three as one of the first two, and one of that and the third."""
    left, _, out = operation.detail.partition("->")
    if "." in operation.detail:
        return
    values = zip(operation.operands, operation.sources, operation.origins, strict=True)
    parts = list(zip(left.split(","), values, strict=True))
    for number in (0, 1):
        weights, (gate, _), (other, _) = parts[number], *parts[:number], *parts[number + 1 :]
        both = {*gate} & {*other}
        if both - {*weights[0]} and (both - {*out}) & {weights[0][axis] for axis in sums_to_one(weights[1][0])}:
            # Weights meet what is gated.
            parts = [*parts[:number], *parts[number + 1 :], weights]
            break
    (one, first), (two, second), (three, third) = parts
    kept = "".join(a for a in dict.fromkeys(one + two) if a in three + out)
    equation = f"{one},{two}->{kept}"
    inner = written.step("einsum", np.einsum(equation, first[0], second[0]), first, second, detail=equation)
    written.step("einsum", operation.host, inner, third, detail=f"{kept},{three}->{out}")


def _product_attention(written: Written, options: Any, output: np.ndarray) -> None:
    q, k, v = (written.given(options[name], i) for i, name in enumerate(("query", "key", "value")))
    if options.get("enable_gqa") and q[0].shape[-3] != k[0].shape[-3]:
        times = q[0].shape[-3] // k[0].shape[-3]
        k, v = (written.step("repeat_interleave", np.repeat(x[0], times, axis=-3), x) for x in (k, v))
    mask = options.get("attn_mask")
    given = [] if mask is None else [written.given(mask, 3)]
    scale = options.get("scale")
    if options.get("is_causal"):
        T, S = q[0].shape[-2], k[0].shape[-2]
        given.append((np.tri(T, S, dtype=bool), None, ""))
    _mixed(written, q, k, v, given, scale, output, float(options.get("dropout_p") or 0.0))


def _mixed(
    written: Written, q: _Value, k: _Value, v: _Value, masks: list[_Value], scale: float | None, output: np.ndarray,
    drop: float,
) -> None:  # fmt: skip
    with np.errstate(all="ignore"):
        turned = written.step("transpose", k[0].swapaxes(-1, -2), k)
        scores = written.step("matmul", q[0] @ turned[0], q, turned)
        scores = written.step("mul", scores[0] * (q[0].shape[-1] ** -0.5 if scale is None else scale), scores)
        for mask in masks:
            boolean = mask[0].dtype.kind == "b"
            made = np.where(mask[0], scores[0], -np.inf) if boolean else scores[0] + mask[0]
            scores = written.step("where" if boolean else "add", made, mask, scores)
        powers = np.exp(scores[0] - np.max(scores[0], -1, keepdims=True))
        weights = written.step("softmax", np.nan_to_num(powers / powers.sum(-1, keepdims=True)), scores)
        if drop:
            # What is dropped inside cannot be seen.
            weights = written.step("dropout", weights[0], weights, detail=f"fused {drop}")
        made = weights[0] @ v[0]
        written.step("matmul", output.reshape(made.shape) if output.size == made.size else made, weights, v)


def _projected_attention(written: Written, options: Any, output: np.ndarray) -> None:
    """Of F.multi_head_attention_forward: q, k, v (T, B, width), or (T, width)."""
    inputs = [written.given(options[name], i) for i, name in enumerate(("query", "key", "value"))]
    width, heads = inputs[0][0].shape[-1], int(options["num_heads"])
    bias = options.get("in_proj_bias")
    biases = np.zeros(3 * width) if bias is None else bias
    made: list[_Value] = []
    for i, (name, x) in enumerate(zip("qkv", inputs, strict=True)):
        if options.get("use_separate_proj_weight"):
            weight = options[f"{name}_proj_weight"]
        else:
            weight = options["in_proj_weight"][i * width : (i + 1) * width]
        y = x[0] @ weight.T + biases[i * width : (i + 1) * width]
        y3 = written.step("linear", y, x, (weight, None, f"parameter {name}"))
        shaped = y.reshape(len(y), -1, heads, width // heads).transpose(1, 2, 0, 3)
        made.append(written.step("transpose", shaped, y3))
    B, H, T, d = made[0][0].shape
    masks = []
    for name in ("attn_mask", "key_padding_mask"):
        mask = options.get(name)
        if mask is not None:
            x = written.given(mask, 3)
            # True hides here.
            y = ~x[0] if x[0].dtype.kind == "b" else x[0]
            if name == "key_padding_mask":
                y = y.reshape(B, 1, 1, -1)
            elif y.ndim == 3:
                y = y.reshape(B, H, T, -1)
            masks.append((y, x[1], x[2]))
    start = len(written.operations)
    q, k, v = made
    mixed = np.zeros((B, H, T, d))
    drop = float(options.get("dropout_p") or 0.0) if options.get("training", True) else 0.0
    _mixed(written, q, k, v, masks, None, mixed, drop)
    # The mixing has its own numbers here, and not those of the output.
    last = written.operations[-1]
    weights, values = last.operands
    mixed = weights @ values
    written.operations[-1] = replace(last, array=mixed, host=mixed)
    assert len(written.operations) > start
    merged = written.step("reshape", mixed.transpose(2, 0, 1, 3).reshape(T, B, H * d),
                          (mixed, len(written.operations) - 1, ""))  # fmt: skip
    out = options["out_proj_weight"]
    written.step("linear", output, (merged[0], merged[1], ""), (out, None, "parameter out"))
