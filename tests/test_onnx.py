"""ONNX's own cases of its Attention operator, through a thin adapter, and all that they expect.

ONNX and overt agree on the order (scale, softcap, bias and mask, softmax), on True = may attend, on fully masked rows
and on query head h reading key head h // (H/G).  The adapter spells out what is left: the three-axis layout, past keys,
the causal offset, open ends of windows, and masks shorter than the keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.backend.test.case import node as registry
from onnx.backend.test.case.test_case import TestCase
from onnx.reference import ReferenceEvaluator

import overt

# Importing the one module registers its cases; the public collector builds those of every operator, for 20 seconds.
import_module("onnx.backend.test.case.node.attention")
CASES = [
    case
    for case in registry._NodeTestCases
    if case.model.graph.node[0].op_type == "Attention" and "_expanded" not in case.name
]
HALVES = [case for case in CASES if case.data_sets[0][0][0].dtype.itemsize == 2]

INPUTS = "q", "k", "v", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"
OUTPUTS = "y", "present_key", "present_value", "qk"
# qk_matmul_output_mode as steps of the trace; where one was not asked for, the one before it holds the same numbers.
STAGES = ("scores", "scaled"), ("capped",), ("biased", "masked"), ("weights",)

# Relative and absolute, for numbers of about 1.  ONNX computes each case in its own dtype, so its half types carry the
# rounding of every intermediate and may end one unit in the last place away from overt's, which are rounded once;
# which of the two is right is tested apart.
TOLERANCE = {"float32": 2**-21, "float16": 2**-11, "bfloat16": 2**-8}


@dataclass
class Call:
    """One case in overt's words."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    options: dict[str, Any]
    mode: int
    flat: bool
    dtype: np.dtype
    """What the operator returns; the arrays may be wider, where the softmax was asked to be."""
    expected: dict[str, np.ndarray] = field(default_factory=dict)

    def outward(self, y: np.ndarray) -> np.ndarray:
        """(B, H, T, E), or (B, T, H·E) where the inputs came like that."""
        if self.flat:
            y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
        return y.astype(self.dtype)


def translate(case: TestCase) -> Call:
    """The adapter."""
    (node,) = case.model.graph.node
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    ((given, wanted),) = case.data_sets
    inputs, outputs = (_named(*pair) for pair in ((INPUTS, node.input, given), (OUTPUTS, node.output, wanted)))

    q, k, v = (inputs[name] for name in "qkv")
    dtype, flat = q.dtype, q.ndim == 3
    if flat:
        q = _split(q, attributes["q_num_heads"])
        k, v = (_split(x, attributes["kv_num_heads"]) for x in (k, v))
    offset: int | np.ndarray = 0
    if "past_key" in inputs:
        offset = inputs["past_key"].shape[-2]
        k, v = (np.concatenate([inputs[past], x], axis=-2) for past, x in (("past_key", k), ("past_value", v)))
    T, S = q.shape[-2], k.shape[-2]

    masks, bias = [], None
    if "nonpad_kv_seqlen" in inputs:
        lengths = inputs["nonpad_kv_seqlen"]
        masks.append(overt.padding(lengths))
        offset = lengths - T
    if attributes.get("is_causal"):
        masks.append(overt.causal(offset))
    sides = [attributes.get(side, -1) for side in ("left_window_size", "right_window_size")]
    if sides != [-1, -1]:
        # −1 leaves a side open; nothing is further from a query than T + S plus where the queries start.
        far = T + S + int(np.max(np.abs(offset)))
        masks.append(overt.window(*(side if side >= 0 else far for side in sides), offset))
    if "attn_mask" in inputs:
        array = inputs["attn_mask"]
        hidden = False if array.dtype == bool else -np.inf
        missing = [(0, 0)] * (array.ndim - 1) + [(0, S - array.shape[-1])]
        array = np.pad(array, missing, constant_values=hidden)
        if array.dtype == bool:
            masks.append(overt.keep(array))
        else:
            bias = array
    mask = None
    for part in masks:
        mask = part if mask is None else mask & part

    # overt's softmax is float32 at least; only double asks for more.
    if attributes.get("softmax_precision") == TensorProto.DOUBLE:
        q, k, v = (x.astype(np.float64) for x in (q, k, v))
    options = {
        "score": overt.scaled_dot(attributes.get("scale")),
        "mask": mask,
        "bias": bias,
        # 0 is ONNX's word for no cap.
        "softcap": attributes.get("softcap") or None,
    }
    return Call(q, k, v, options, attributes.get("qk_matmul_output_mode", 0), flat, dtype, outputs)


def _named(names: tuple[str, ...], given: Any, arrays: list[np.ndarray]) -> dict[str, np.ndarray]:
    # An empty name is an optional tensor left out.
    present = [ours for ours, theirs in zip(names, given, strict=False) if theirs]
    return dict(zip(present, arrays, strict=True))


def _split(x: np.ndarray, heads: int) -> np.ndarray:
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def stage(steps: overt.Trace, mode: int) -> np.ndarray:
    """What qk_matmul_output holds in this mode."""
    named = [name for stages in STAGES[: mode + 1] for name in stages if name in steps]
    return steps[named[-1]]


def name(case: TestCase) -> str:
    return case.name.removeprefix("test_attention_")


def test_there_are_93_cases() -> None:
    assert len(CASES) == len({case.name for case in CASES}) == 93
    assert {len(case.model.graph.node) for case in CASES} == {1}


@pytest.mark.parametrize("case", CASES, ids=name)
def test_case(case: TestCase) -> None:
    call = translate(case)
    expected, tolerance = dict(call.expected), TOLERANCE[call.dtype.name]

    def close(got: np.ndarray, name: str) -> None:
        assert got.dtype == expected[name].dtype
        got, want = (x.astype(np.float64) for x in (got, expected[name]))
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)

    seen = overt.attend(call.q, call.k, call.v, **call.options)
    steps = overt.trace(call.q, call.k, call.v, **call.options)
    close(call.outward(overt.attention(call.q, call.k, call.v, **call.options)), "y")
    close(call.outward(seen.output), "y")
    close(call.outward(steps["output"]), "y")
    del expected["y"]
    if "qk" in expected:
        close(stage(steps, call.mode).astype(call.dtype), "qk")
        if call.mode == 3:
            close(np.asarray(seen.weights).astype(call.dtype), "qk")
        del expected["qk"]
    for past, present in (("present_key", call.k), ("present_value", call.v)):
        if past in expected:
            np.testing.assert_array_equal(present, expected.pop(past))
    assert not expected


@pytest.mark.parametrize("case", HALVES, ids=name)
def test_half_types_are_rounded_once(case: TestCase) -> None:
    """ONNX's reference fed with the same numbers in float64 is the truth of a half case."""
    call = translate(case)
    ((given, _),) = case.data_sets
    wide = [x.astype(np.float64) if x.dtype.itemsize == 2 else x for x in given]
    truth = ReferenceEvaluator(case.model).run(
        None, {tensor.name: x for tensor, x in zip(case.model.graph.input, wide, strict=True)}
    )[0]
    output, onnx = (
        x.astype(np.float64)
        for x in (call.outward(overt.attention(call.q, call.k, call.v, **call.options)), call.expected["y"])
    )
    unit = 2.0**-11 if call.dtype == np.float16 else 2.0**-8
    # Half a unit in the last place, and a little for float32 before it.
    assert np.all(np.abs(output - truth) <= 1.001 * unit * np.abs(truth) + 1e-7)
    assert np.abs(output - truth).max() <= np.abs(onnx - truth).max()


@pytest.mark.parametrize("poisoned", [1, 2], ids=["key", "value"])
def test_masked_nan_stays_out(poisoned: int) -> None:
    """Where the two differ: ONNX's reference adds −∞ to a masked NaN, and multiplies it by a weight of zero."""
    (case,) = (case for case in CASES if case.name == "test_attention_4d_attn_mask_bool")
    ((given, _),) = case.data_sets
    arrays = [x.copy() for x in given]
    arrays[poisoned][..., 2, :] = np.nan
    arrays[3][:, 2] = False
    (theirs,) = ReferenceEvaluator(case.model).run(None, dict(zip(("Q", "K", "V", "attn_mask"), arrays, strict=True)))
    ours = overt.attention(*arrays[:3], mask=arrays[3])
    assert np.isnan(theirs).any()
    assert not np.isnan(ours).any()
