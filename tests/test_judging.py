"""Each step of a recorded attention is judged on its own input; names are read nowhere."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from overt.check.mistakes import MISTAKES
from overt.check.steps.judging import Judged, judge
from overt.check.steps.pipeline import classify
from overt.recorder import record_operations
from overt.recorder.operations import Operation


def drawn(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape) for shape in shapes]


def judged(code: Any, *args: Any, **options: Any) -> Judged:
    result, operations = record_operations(code, *args)
    results = result if isinstance(result, tuple) else (result,)
    outputs = [x.detach().numpy() if isinstance(x, torch.Tensor) else x for x in results]
    names = {f"parameter {name}": x.shape for name, x in code.named_parameters()} if isinstance(code, nn.Module) else {}
    return judge(operations, outputs, given=names, **options)


def found(code: Any, *args: Any, **options: Any) -> dict[str, int | None]:
    """The mistakes, with the place of their lines in the code."""
    function = type(code).forward if isinstance(code, nn.Module) else code
    first = function.__code__.co_firstlineno
    return {f.mistake: None if f.line is None else f.line - first for f in judged(code, *args, **options).faults}


def held(result: Judged) -> set[str]:
    return {entry.step for entry in result.ledger if entry.outcome == "held"}


def stable(x: np.ndarray, axis: int = -1) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


class Wild(nn.Module):
    """Four mistakes at once, in a block with a norm, a gate and a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d, self.e = (nn.Linear(12, 12) for _ in range(5))
        self.n = nn.LayerNorm(12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, D = x.shape
        y = self.n(x)
        a = self.a(y).view(B, 3, T, 4)
        b, c = (z(y).view(B, T, 3, 4).transpose(1, 2) for z in (self.b, self.c))
        s = a @ b.mT / math.sqrt(D)
        p = s.softmax(-2)
        o = (p @ c).reshape(B, T, D)
        return x + torch.sigmoid(self.e(y)) * self.d(o)


def test_four_mistakes_at_once_are_four_with_their_lines() -> None:
    lines = inspect.getsource(Wild.forward).splitlines()
    told = found(Wild().double().eval(), torch.from_numpy(drawn((2, 5, 12))[0]))
    assert {name: lines[line or 0].strip()[:5] for name, line in told.items()} == {
        "split_view": "a = s",
        "scale_dmodel": "s = a",
        "softmax_axis_q": "p = s",
        "merge_view": "o = (",
    }


class Windows(nn.Module):
    """Attention in windows of an image (B, C, H, W), relative biases, convolutions around it."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.Conv2d(8, 24, 1), nn.Conv2d(8, 8, 3, padding=1)
        self.table = nn.Parameter(torch.randn(2, 4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, C, H, W = x.shape
        y = self.inner(x).view(B, 3, 2, 4, H // 2, 2, W // 2, 2).permute(1, 0, 4, 6, 2, 5, 7, 3)
        q, k, v = y.reshape(3, -1, 2, 4, 4)
        w = ((q * 0.5) @ k.mT + self.table).softmax(-1)
        z = (w @ v).view(B, H // 2, W // 2, 2, 2, 2, 4).permute(0, 3, 6, 1, 4, 2, 5)
        return x + self.outer(z.reshape(B, C, H, W))


class Graph(nn.Module):
    """Attention along the edges of a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Linear(6, 6, bias=False) for _ in range(3))

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        scores = self.one(x) @ self.two(x).T * 6**-0.5
        scores = torch.where(edges, scores, torch.finfo(scores.dtype).min)
        return functional.relu(scores.softmax(1) @ self.three(x))


def online(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    top, total = np.full((len(a), 1), -np.inf), np.zeros((len(a), 1))
    mixed = np.zeros((len(a), c.shape[1]))
    for i in range(0, len(b), 2):
        s = a @ b[i : i + 2].T / np.sqrt(a.shape[1])
        new = np.maximum(top, s.max(1, keepdims=True))
        p, old = np.exp(s - new), np.exp(top - new)
        total, mixed, top = total * old + p.sum(1, keepdims=True), mixed * old + p @ c[i : i + 2], new
    return mixed / total


def forgetful(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    top, total = np.full((len(a), 1), -np.inf), np.zeros((len(a), 1))
    mixed = np.zeros((len(a), c.shape[1]))
    for i in range(0, len(b), 2):
        s = a @ b[i : i + 2].T / np.sqrt(a.shape[1])
        new = np.maximum(top, s.max(1, keepdims=True))
        p, old = np.exp(s - new), np.exp(top - new)
        total, mixed, top = total * old + p.sum(1, keepdims=True), mixed + p @ c[i : i + 2], new
    return mixed / total


def test_right_code_in_unusual_surroundings_is_left_alone() -> None:
    torch.manual_seed(0)
    image, nodes = torch.randn(2, 8, 4, 4).double(), torch.randn(7, 6).double()
    edges = torch.rand(7, 7) < 0.5
    edges |= torch.eye(7, dtype=torch.bool)
    for code, args in (
        (Windows().double(), (image,)),
        (Graph().double(), (nodes, edges)),
        (online, drawn((5, 4), (6, 4), (6, 3))),
        (nn.MultiheadAttention(12, 3, batch_first=True).double().eval(), (torch.randn(2, 5, 12).double(),) * 3),
        (nn.TransformerEncoderLayer(12, 3, batch_first=True).double().eval(), (torch.randn(2, 5, 12).double(),)),
    ):
        result = judged(code, *args)
        assert result.cores, code
        assert not result.faults, (code, result.faults)
        assert {"softmax", "scale"} <= {step.split(", ")[-1] for step in held(result)}


def test_blocks_of_keys_are_judged_together() -> None:
    arrays = drawn((5, 4), (6, 4), (6, 3))
    np.testing.assert_allclose(online(*arrays), stable(arrays[0] @ arrays[1].T / 2) @ arrays[2])
    (fault,) = judged(forgetful, *arrays).faults
    assert (fault.step, fault.mistake) == ("softmax", "unknown")


def softmax_variant(after: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    def code(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return after(a @ b.swapaxes(-1, -2) / math.sqrt(a.shape[-1])) @ c

    return code


@pytest.mark.parametrize(
    ("after", "mistake"),
    [
        (lambda s: stable(s, -2), "softmax_axis_q"),
        (lambda s: stable(s, 1), "softmax_axis_head_or_batch"),
        (lambda s: stable(s, 0), "softmax_axis_head_or_batch"),
        (lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum(), "softmax_global"),
        (lambda s: np.exp(s - s.max(-1, keepdims=True)) / np.exp(s).sum(-1, keepdims=True), "softmax_partial_max"),
        (lambda s: np.exp(s) / np.exp(s).sum(-1, keepdims=True), "no_max"),
        (lambda s: np.exp(s - s.max()) / np.exp(s - s.max()).sum(-1, keepdims=True), "global_max"),
        (lambda s: s / s.sum(-1, keepdims=True), "no_exp_norm"),
        (lambda s: s, "softmax_missing"),
        (lambda s: stable(s * s.shape[-1] ** 0), ""),
        (lambda s: np.exp(s - s.max(-1, keepdims=True)) * np.exp(s.max(-1, keepdims=True)), "unknown"),
    ],
)
def test_softmax(after: Callable[[np.ndarray], np.ndarray], mistake: str) -> None:
    told = found(softmax_variant(after), *drawn((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)))
    assert set(told) == ({mistake} if mistake else set())


@pytest.mark.parametrize(
    ("scale", "mistake"),
    [(0.5, ""), (1.0, "scale_missing"), (0.25, "scale_d"), (2.0, "scale_inverted"), (7**-0.5, "scale_seqlen")],
)
def test_scale(scale: float, mistake: str) -> None:
    def code(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        return stable((a * scale) @ b.swapaxes(-1, -2)) @ c

    told = found(code, *drawn((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)))
    assert told == ({mistake: 1} if mistake else {})


@pytest.mark.parametrize(
    ("hide", "mistake"),
    [
        (lambda s, m: np.where(m, s, -np.inf), ""),
        (lambda s, m: np.where(m, -1e9, s), ""),
        (lambda s, m: s + np.where(m, 0, -1e9), ""),
        (lambda s, m: np.where(m, s, np.inf), "mask_sign_inf"),
        (lambda s, m: s * m, "mask_times_scores"),
        (lambda s, m: s + m, "mask_bool_as_float"),
        (lambda s, m: np.where(m, s, -10.0), "mask_fill_too_small"),
        (lambda s, m: np.where(m, s, s - 10.0), "mask_fill_too_small"),
        (lambda s, m: 3 * np.tanh(np.where(m, s, -1e9) / 3), "softcap_after_mask"),
        (lambda s, m: np.where(m.swapaxes(0, 1) if len(m) == 1 else m[::-1], s, -np.inf), "mask_fold_order"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_mask(hide: Callable[..., np.ndarray], mistake: str) -> None:
    def code(a: np.ndarray, b: np.ndarray, c: np.ndarray, m: np.ndarray) -> np.ndarray:
        return stable(hide(a @ b.swapaxes(-1, -2) / 2, m)) @ c

    mask = np.random.default_rng(1).random((2, 1, 5, 7)) < 0.6
    mask[..., 0] = True
    mask[..., 1] = False
    told = found(code, *drawn((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)), mask)
    assert set(told) == ({mistake} if mistake else set())


def test_weights_that_are_masked_must_sum_to_1_again() -> None:
    def late(a: np.ndarray, b: np.ndarray, c: np.ndarray, m: np.ndarray) -> np.ndarray:
        return (stable(a @ b.T / 2) * m) @ c

    def again(a: np.ndarray, b: np.ndarray, c: np.ndarray, m: np.ndarray) -> np.ndarray:
        w = stable(a @ b.T / 2) * m
        return w / w.sum(-1, keepdims=True) @ c

    arrays, mask = drawn((5, 4), (7, 4), (7, 3)), np.random.default_rng(1).random((5, 7)) < 0.6
    mask[:, 0] = True
    assert found(late, *arrays, mask) == {"mask_after_softmax": 1}
    assert found(again, *arrays, mask) == {}


@pytest.mark.parametrize(
    ("hidden", "mistake"),
    [
        (lambda t, s: s > t, ""),
        (lambda t, s: s > t + 1, "causal_off_by_one"),
        (lambda t, s: (s > t) | ((s == t) & (t > 0)), ""),
        (lambda t, s: s < t, "mask_inverted"),
        (lambda t, s: s < 0, "causal_missing"),
    ],
)
def test_causality(hidden: Callable[..., np.ndarray], mistake: str) -> None:
    def code(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        s = (x @ w) @ x.T / math.sqrt(x.shape[-1])
        return stable(np.where(hidden(*np.indices(s.shape)), -np.inf, s)) @ x

    told = found(code, *drawn((6, 4), (4, 4)), causal=True)
    assert set(told) == ({mistake} if mistake else set())


def test_an_unknown_mistake_is_located() -> None:
    def code(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        s = a @ b.T / 2
        s = np.sin(3 * s)
        return stable(s) @ c

    (fault,) = judged(code, *drawn((5, 4), (7, 4), (7, 3))).faults
    assert fault.mistake == "unknown"
    assert fault.line == code.__code__.co_firstlineno + 2
    assert fault.expected != fault.actual


def test_grouped_heads() -> None:
    def tiled(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        b, c = (np.concatenate([x, x], axis=1) for x in (b, c))
        return stable(a @ b.swapaxes(-1, -2) / 2) @ c

    def repeated(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        b, c = (np.repeat(x, 2, axis=1) for x in (b, c))
        return stable(a @ b.swapaxes(-1, -2) / 2) @ c

    arrays = drawn((2, 4, 5, 4), (2, 2, 7, 4), (2, 2, 7, 6))
    assert set(found(repeated, *arrays)) == set()
    assert "groups" in held(judged(repeated, *arrays))
    assert set(found(tiled, *arrays)) == {"gqa_tile"}


def test_what_holds_no_attention_has_no_core() -> None:
    layers = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3), nn.Softmax(-1))
    assert judged(layers, torch.randn(4, 6)).cores == 0
    assert judged(lambda a, b: stable(a) + b, *drawn((3, 4), (3, 4))).cores == 0


def test_every_fault_is_of_the_catalogue_or_unknown() -> None:
    told = judged(Wild().double().eval(), torch.from_numpy(drawn((2, 5, 12))[0]))
    assert {f.mistake for f in told.faults} <= {*MISTAKES, "unknown"}
    assert all(f.file == __file__ for f in told.faults)


def test_small_numbers_are_judged_by_their_own_size() -> None:
    # A cap far above the scores changes them little, and each by an amount of its own.
    x = np.random.default_rng(0).normal(size=(4, 5)) * 2e-3
    step = Operation("tanh", (None,), (x,), np.tanh(x), np.tanh(x), None)
    assert classify(x, np.tanh(x), step, False).name != "shift"
    assert classify(20 * x, np.tanh(20 * x), step, False).name == "tanh"
    rounded = x + 1e-9 * np.sign(x)
    assert classify(x, rounded, step, False).name == "same"
    assert classify(x, x - 2e-3, step, False).name == "shift"
