"""Somebody's own code as a table of steps: values, lines, and what each step of an attention is."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import overt
from overt.errors import ArgumentError
from overt.recorder import record_operations
from overt.recorder.core import attentions

HERE = Path(__file__).read_text().splitlines()


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape) for shape in shapes]


def softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def causal(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ np.swapaxes(k, -1, -2)
    scores = scores / math.sqrt(q.shape[-1])
    scores = np.where(np.triu(np.ones(scores.shape[-2:], bool), 1), -np.inf, scores)
    return softmax(scores) @ v


def test_a_function_of_numpy() -> None:
    q, k, v = drawn((2, 5, 4), (2, 5, 4), (2, 5, 3))
    steps = overt.trace(causal, q, k, v)
    assert isinstance(steps, overt.Trace)
    right = overt.trace(q, k, v, mask=overt.causal())
    for mine, theirs in (("scores", "scores"), ("scaled", "scaled"), ("weights", "weights"), ("output", "output")):
        np.testing.assert_allclose(steps[mine], right[theirs], atol=1e-12)
    np.testing.assert_array_equal(steps["masked"], right["masked"])
    np.testing.assert_array_equal(steps.result, causal(q, k, v))
    (found,) = steps.attentions
    # What came as an argument was computed by no step.
    assert found["queries"] is found["values"] is None
    np.testing.assert_array_equal(steps[found["keys"]], np.swapaxes(k, -1, -2))


def test_steps_have_the_lines_that_made_them() -> None:
    steps = overt.trace(causal, *drawn((5, 4), (5, 4), (5, 3)))
    for name, code in (
        ("scores", "scores = q @ np.swapaxes(k, -1, -2)"),
        ("scaled", "scores = scores / math.sqrt(q.shape[-1])"),
        ("weights", "return powers / powers.sum(axis=axis, keepdims=True)"),
        ("output", "return softmax(scores) @ v"),
    ):
        step = steps.step(name)
        assert step.formula == code
        assert HERE[step.line.number - 1].strip() == code
        assert any(row.split()[:1] == [name] and code in row for row in str(steps).splitlines())
        assert code in steps._repr_html_()


def test_arguments_are_not_changed_and_values_are_those_of_their_time() -> None:
    def doubles(x: np.ndarray) -> np.ndarray:
        y = x + 1
        y *= 2
        y[0] = 0
        x -= 100
        return y

    (x,) = drawn((3, 4))
    before = x.copy()
    steps = overt.trace(doubles, x)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(steps["add"], before + 1)
    np.testing.assert_array_equal(steps["multiply"], 2 * (before + 1))
    np.testing.assert_array_equal(steps["setitem"][1:], 2 * (before[1:] + 1))
    assert not steps["setitem"][0].any()


def keys_first(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.einsum("st,se->te", softmax(k @ q.T, axis=0), v)


def by_einsum(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.einsum("ts,se->te", softmax(np.einsum("sd,td->ts", k, q)), v)


def summed_up(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return (softmax(q @ k.T)[:, :, None] * v).sum(axis=1)


def additive(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    return softmax(np.tanh(q[:, None] + k).sum(axis=-1)) @ v


def test_arrays_of_numpy_that_become_tensors() -> None:
    def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.softmax(q @ k.T, -1) @ v

    q, k, v = drawn((5, 4), (7, 4), (7, 3))
    by_tensors = overt.trace(attention, *map(torch.from_numpy, (q, k, v)))
    assert len(by_tensors.attentions) == 1
    lent = overt.trace(lambda *x: attention(*map(torch.from_numpy, x)), q, k, v)
    back = overt.trace(lambda *x: attention(*map(torch.from_numpy, x)).numpy(), q, k, v)
    calls = []
    overt.trace(lambda *x: calls.append(attention(*x)) or calls[-1].numpy(), *map(torch.from_numpy, (q, k, v)))
    assert len(calls) == 1
    for steps in (lent, back):
        assert steps.attentions == by_tensors.attentions
        np.testing.assert_array_equal(steps["weights"], by_tensors["weights"])


@pytest.mark.parametrize("code", [keys_first, by_einsum, summed_up])
def test_attention_is_found_by_numbers(code: Callable[..., Any]) -> None:
    q, k, v = (x + 0 for x in drawn((5, 4), (7, 4), (7, 3)))
    steps = overt.trace(lambda q, k, v: code(q * 1, k * 1, v * 1), q, k, v)
    (found,) = steps.attentions
    np.testing.assert_array_equal(np.sort(steps["queries"].ravel()), np.sort(q.ravel()))
    np.testing.assert_array_equal(np.sort(steps["keys"].ravel()), np.sort(k.ravel()))
    np.testing.assert_array_equal(np.sort(steps["values"].ravel()), np.sort(v.ravel()))
    np.testing.assert_array_equal(steps["output"], code(q, k, v))
    assert found.keys() == {"queries", "keys", "scores", "weights", "values", "output"}


def test_a_score_that_is_no_product() -> None:
    q, k, v = drawn((5, 4), (7, 4), (7, 3))
    steps = overt.trace(additive, q, k, v)
    np.testing.assert_allclose(steps["scores"], np.tanh(q[:, None] + k).sum(axis=-1))
    np.testing.assert_array_equal(steps["output"], additive(q, k, v))


def test_what_is_no_attention_is_not_called_one() -> None:
    def router(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return softmax(x @ w).max(axis=-1)

    def normalised(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).sum(axis=-1, keepdims=True)) @ w

    for code in (router, normalised):
        steps = overt.trace(code, *drawn((5, 4), (4, 3)))
        assert steps.attentions == ()
        assert "no attentions" in repr(steps)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, _ = x.shape
        q, k, v = (y.view(B, T, 2, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
        scores = q @ k.transpose(-1, -2) * 0.5
        scores.masked_fill_(torch.ones(T, T).triu(1).bool(), float("-inf"))
        weights = functional.dropout(scores.softmax(-1), 0.1, self.training)
        return x + self.out((weights @ v).transpose(1, 2).reshape(B, T, 8))


def test_a_module_of_torch() -> None:
    torch.manual_seed(0)
    block, x = Block().eval(), torch.randn(2, 5, 8)
    steps = overt.trace(block, x)
    torch.testing.assert_close(steps.result, block(x), rtol=0, atol=0)
    (found,) = steps.attentions
    assert set(found) == {"queries", "keys", "scores", "scaled", "masked", "weights", "values", "output"}
    q, k, v = (steps[found[name]] for name in ("queries", "keys", "values"))
    k = k.mT if k.shape != q.shape else k
    seen = overt.attend(q, k, v, mask=overt.causal())
    torch.testing.assert_close(steps["weights"], seen.weights[...], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(steps["output"], seen.output, rtol=1e-5, atol=1e-6)
    assert not torch.isinf(steps["scaled"]).any()
    assert steps.step("masked").line.text.startswith("scores.masked_fill_")


def test_fused_attention_of_torch_is_one_step() -> None:
    def fused(x: torch.Tensor) -> torch.Tensor:
        q, k, v = x + 1, x + 2, x + 3
        return functional.scaled_dot_product_attention(q, k, v)

    x = torch.randn(1, 2, 5, 4)
    steps = overt.trace(fused, x)
    (found,) = steps.attentions
    for name, more in (("queries", 1), ("keys", 2), ("values", 3)):
        torch.testing.assert_close(steps[found[name]], x + more)
    torch.testing.assert_close(steps["output"], fused(x))


def test_two_attentions_are_two() -> None:
    q, k, v = drawn((5, 4), (5, 4), (5, 4))
    steps = overt.trace(lambda q, k, v: causal(causal(q, k, v), k, v), q, k, v)
    first, second = steps.attentions
    assert (first["output"], second["output"]) == ("output", "output #2")
    np.testing.assert_array_equal(steps["output #2"], causal(causal(q, k, v), k, v))


def test_code_without_arrays_and_pictures_of_code_say_what_to_do() -> None:
    with pytest.raises(ArgumentError, match="did nothing with arrays that could be seen"):
        overt.trace(lambda: 3)
    with pytest.raises(ArgumentError, match=r"give q, k and v to overt\.trace"):
        _ = overt.trace(causal, *drawn((5, 4), (5, 4), (5, 3))).problem


def test_what_the_code_raises_comes_through() -> None:
    with pytest.raises(ValueError, match="mismatch"):
        overt.trace(lambda a, b: a @ b, *drawn((2, 3), (2, 3)))
    with pytest.raises(RuntimeError):
        overt.trace(lambda a, b: a @ b, torch.ones(2, 3), torch.ones(2, 3))
    # And nothing stays watched.
    assert type(np.ones(2) + 1) is np.ndarray
    assert type(causal(*drawn((5, 4), (5, 4), (5, 3)))) is np.ndarray


JAX = """
import jax, jax.numpy as jnp, numpy as np, overt

@jax.jit
def attention(q, k, v):
    scores = q @ k.T / jnp.sqrt(q.shape[-1])
    return jax.nn.softmax(scores) @ v

q, k, v = (jnp.asarray(x) for x in np.random.default_rng(0).normal(size=(3, 5, 4)))
steps = overt.trace(attention, q, k, v)
(found,) = steps.attentions
assert set(found) == {"queries", "keys", "scores", "scaled", "weights", "values", "output"}, found
right = overt.trace(*(np.asarray(x) for x in (q, k, v)))
for name in ("scores", "scaled", "weights", "output"):
    np.testing.assert_allclose(steps[name], right[name], rtol=1e-5, atol=1e-6)
np.testing.assert_allclose(steps.result, attention(q, k, v), rtol=1e-5)
same = overt.trace(attention, *(np.asarray(x) for x in (q, k, v)))
assert list(same.names) == list(steps.names) and same.attentions == steps.attentions
print(steps.step("scores").line.number)
"""


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
def test_a_function_of_jax(tmp_path: Path) -> None:
    # In a process of its own, since JAX minds a fork of the one that it is in.
    (tmp_path / "code.py").write_text(JAX)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "code.py")], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert JAX.splitlines()[int(done.stdout) - 1].strip().startswith("scores = ")


@pytest.mark.skipif(find_spec("jax") is None, reason="JAX is not installed")
def test_primitives_of_jax_give_in_numpy_what_jax_gives() -> None:
    script = Path(__file__).with_name("primitives.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_numbers_and_arrays_made_of_them_are_followed() -> None:
    q, k, v = drawn((3, 4), (5, 4), (5, 2))

    def by_loops(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        out = np.zeros((len(q), v.shape[1]))
        for i, query in enumerate(q):
            scores = np.array([query @ key / math.sqrt(q.shape[1]) for key in k])
            powers = np.exp(scores - scores.max())
            out[i] = powers / powers.sum() @ v
        return out

    result, operations = record_operations(by_loops, q, k, v)
    np.testing.assert_allclose(result, softmax(q @ k.T / 2) @ v)
    assert type(result) is np.ndarray
    # From the result back to the arguments nothing is missing.
    seen, open_, origins = set[int](), [len(operations) - 1], set[str]()
    while open_:
        number = open_.pop()
        if number not in seen:
            seen.add(number)
            open_ += [s for s in operations[number].sources if s is not None]
            origins |= {o for o in operations[number].origins if o}
    assert origins == {"argument 0", "argument 1", "argument 2"}
    assert np.array is sys.modules["numpy"].array


class Words:
    """A table of words, and matrices in an object of its own: nothing of these is an argument."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.table, self.layers = rng.normal(size=(9, 4)), [{name: rng.normal(size=(4, 4)) for name in "qkv"}]
        self.last: np.ndarray | None = None

    def __call__(self, tokens: np.ndarray) -> np.ndarray:
        x = self.table[tokens]
        q, k, v = (x @ self.layers[0][name] for name in "qkv")
        s = np.exp(q @ k.T / 2)
        self.last = s / s.sum(-1, keepdims=True)
        return self.last @ v


def test_what_tokens_are_looked_up_in_is_followed_and_stays_as_it_was() -> None:
    model, tokens = Words(), np.array([1, 5, 2])
    table, matrix = model.table, model.layers[0]["q"]
    result, operations = record_operations(model, tokens)
    assert {"parameter table", "parameter layers.0.q"} <= {o for op in operations for o in op.origins}
    assert len(attentions(operations)[1]) == 1
    assert type(result) is np.ndarray
    # The very arrays, and what was stored meanwhile is a plain one.
    assert model.table is table
    assert model.layers[0]["q"] is matrix
    assert type(model.last) is np.ndarray
    np.testing.assert_array_equal(model(tokens), result)


def test_what_a_function_encloses_is_followed() -> None:
    weights = {"v": np.eye(4)}

    def attend(x: np.ndarray) -> np.ndarray:
        s = np.exp(x @ x.T / 2)
        return (s / s.sum(-1, keepdims=True)) @ (np.ones((3, 4)) @ weights["v"])

    _, operations = record_operations(attend, np.random.default_rng(0).normal(size=(3, 4)))
    assert "parameter v" in {o for op in operations for o in op.origins}
    assert type(weights["v"]) is np.ndarray


def test_numbers_are_not_changed_in_place() -> None:
    def running(x: np.ndarray) -> np.ndarray:
        top = x[0]
        before = top
        top += 1
        return np.array([before, top])

    result, _ = record_operations(running, np.array([2.0, 3.0]))
    np.testing.assert_array_equal(result, [2, 3])


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_what_is_written_through_a_view_is_seen(library: str) -> None:
    def filled(x: Any) -> Any:
        whole = x * 0
        part = whole[:, 1]
        part += x[:, 0]
        return whole + 1

    (x,) = drawn((3, 4))
    given = torch.from_numpy(x) if library == "torch" else x
    _, operations = record_operations(filled, given)
    last = operations[-1]
    assert last.name == "add"
    (source,) = [s for s in last.sources if s is not None]
    assert operations[source].name == "written"
    parts = {operations[s].name for s in operations[source].sources}
    assert parts & {"add", "iadd"}
    np.testing.assert_array_equal(last.operands[0][:, 1], x[:, 0])


def test_inside_an_autograd_function_too() -> None:
    class Mix(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.softmax(q @ k.mT / 2, -1) @ v

    def attend(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return Mix.apply(x @ w, x + 1, x * 2) * 3

    steps = overt.trace(attend, torch.randn(5, 4, requires_grad=True), torch.randn(4, 4))
    (found,) = steps.attentions
    assert steps[found["queries"]].shape == (5, 4)
    assert steps.step(found["queries"]).operation == "matmul"


def test_parameters_and_arguments_are_told_apart() -> None:
    block = Block().eval()
    _, operations = record_operations(block, torch.randn(2, 5, 8))
    origins = {o for operation in operations for o in operation.origins if o}
    assert {"argument 0", "parameter qkv.weight", "parameter out.bias", "parameter norm.weight"} <= origins


def test_multi_head_attention_is_one_step_in_a_table_and_its_definition_inside() -> None:
    layer = nn.MultiheadAttention(12, 3, batch_first=True).double().eval()
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    mask = torch.ones(5, 5).triu(1).bool()
    expected, _ = layer(x, x, x, attn_mask=mask)
    steps = overt.trace(layer, x, x, x, attn_mask=mask)
    (parts,) = steps.attentions
    assert parts.keys() == {"weights", "output"}
    np.testing.assert_array_equal(steps["weights"], layer(x, x, x, attn_mask=mask)[1].detach())
    _, operations = record_operations(layer, x, x, x, attn_mask=mask)
    written, (core,), before = attentions(operations)
    assert len(before) == len(written)
    assert core.weights.shape == (2, 3, 5, 5)
    np.testing.assert_allclose(core.weights.sum(-1), 1)
    assert not np.triu(core.weights, 1).any()
    last = written[-1] if written[-1].host.shape == expected.shape else written[-2]
    np.testing.assert_allclose(last.host.swapaxes(0, 1) if last.host.shape[0] == 5 else last.host,
                               expected.detach().numpy(), atol=1e-12)  # fmt: skip


class Experts(nn.Module):
    """A router chooses: its weights sum to 1 too, over experts that are parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(8, 3), nn.Parameter(torch.randn(3, 8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mixed = torch.einsum("btd,ndo->btno", x, self.experts)
        return torch.einsum("btn,btno->bto", self.gate(x).softmax(-1), mixed)


class Pool(nn.Module):
    """Learned queries."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Parameter(torch.randn(3, 8)), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.query @ self.key(x).mT / 8**0.5, -1) @ x


def test_a_router_is_no_attention_and_learned_queries_are() -> None:
    x = torch.randn(2, 5, 8)
    assert overt.trace(Experts(), x).attentions == ()
    (found,) = overt.trace(Pool(), x).attentions
    assert found["scores"]


def test_a_recording_has_an_end() -> None:
    def forever(x: np.ndarray) -> np.ndarray:
        while True:
            x = x + 1

    with pytest.raises(ArgumentError, match="more than 50 operations"):
        record_operations(forever, np.ones(3), _limit=50)


def test_empty_arrays_are_no_attention() -> None:
    def nothing(x: torch.Tensor) -> torch.Tensor:
        none = x[:0]
        sums = none[:, None] + none
        to = torch.zeros(0, dtype=torch.long)
        return torch.zeros(0, 3).index_add(0, to, none) + (sums * sums).sum(0)

    _, operations = record_operations(nothing, torch.randn(4, 3))
    assert attentions(operations)[1] == []


def test_heads_that_a_convolution_mixes_are_no_values() -> None:
    mixed = nn.Conv2d(4, 4, 1, bias=False)

    def talking(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.matmul(mixed(torch.softmax(q @ k.mT, -1)), v)

    _, operations = record_operations(talking, *torch.randn(3, 2, 4, 5, 8))
    (core,) = attentions(operations)[1]
    assert core.mix.labels == ("abxz", "abzy", "abxy")
