"""Dask arrays: chunks along every axis give what whole arrays give, with any scheduler, and whatever happens to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import overt
import overt.positions
from overt.errors import ArgumentError, DtypeError, ShapeError
from strategies import Case, cases

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402

import overt.dask  # noqa: E402

CLOSE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-5, "float64": 1e-12}


def divided(draw: st.DrawFn, n: int) -> tuple[int, ...]:
    """An axis in up to four chunks."""
    cuts = sorted(draw(st.lists(st.integers(1, n - 1), max_size=3, unique=True))) if n > 1 else []
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True))


@st.composite
def chunked(draw: st.DrawFn) -> tuple[Case, list[Any]]:
    """A case, and its arrays in chunks along every axis."""
    case = draw(cases(("float32", "float32", "float64", "bfloat16", "float16")))
    arrays = [case.q, case.k, case.v]
    return case, [da.from_array(x, tuple(divided(draw, n) for n in x.shape)) for x in arrays]


@given(chunked(), st.data())
@settings(max_examples=40)
def test_chunks_of_every_axis_give_what_whole_arrays_give(drawn: tuple[Case, list[Any]], data: st.DataObject) -> None:
    case, arrays = drawn
    expected = overt.attend(case.wide().q, case.wide().k, case.wide().v, **case.wide().options)
    seen = overt.dask.attend(*arrays, **case.options)
    count = min(3, case.k.shape[-2])
    found = [seen.output, seen.lse, seen.received(), seen.entropy(), seen.weights]
    wanted = [expected.output, expected.lse, expected.received(), expected.entropy(), np.asarray(expected.weights)]
    if count:
        found.append(seen.top(count)[1])
        wanted.append(expected.top(count)[1])
        if case.q.shape[-2]:
            pool = data.draw(st.sampled_from(["max", "mean"]))
            found.append(seen.map(5, 7, pool))
            wanted.append(expected.map(5, 7, pool))
    # Scores that half types have rounded before are the same numbers in float64.
    wide = np.dtype(np.float64 if case.q.dtype == np.float64 else np.float32)
    for i, (x, y) in enumerate(zip(dask.compute(*found, scheduler="sync"), wanted, strict=True)):
        assert x.shape == y.shape
        assert x.dtype == (wide if i else case.q.dtype)
        close = CLOSE[case.q.dtype.name if not i else wide.name]
        np.testing.assert_allclose(x.astype(np.float64), y, rtol=close, atol=close * max(1, case.q.shape[-2] / 16))


@given(chunked(), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=40)
def test_gradients_of_chunks_are_those_of_whole_arrays(drawn: tuple[Case, list[Any]], seed: int, along: bool) -> None:
    case, arrays = drawn
    rng = np.random.default_rng(seed)
    whole = overt.attend(case.q, case.k, case.v, **case.options)
    dy = rng.normal(size=whole.output.shape).astype(case.q.dtype)
    dlse = rng.normal(size=whole.lse.shape).astype(whole.lse.dtype) if along else None
    wide = case.wide()
    seen, exact = overt.dask.attend(*arrays, **case.options), overt.attend(wide.q, wide.k, wide.v, **wide.options)
    found = seen.gradient(da.from_array(dy), None if dlse is None else da.from_array(dlse))
    same = whole.gradient(dy, dlse)
    expected = exact.gradient(dy.astype(np.float64), None if dlse is None else dlse.astype(np.float64))
    lazy = named(found)
    computed = zip(lazy, dask.compute(*lazy.values(), scheduler="sync"), strict=True)
    for (name, x), y, z in zip(computed, named(same).values(), named(expected).values(), strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        largest = max(1, abs(z).max(initial=0)) * max(1, case.q.shape[-2] / 16)
        np.testing.assert_allclose(x.astype(np.float64), z, rtol=0, atol=CLOSE[x.dtype.name] * largest, err_msg=name)


def named(gradient: Any) -> dict[str, Any]:
    """Every array of a gradient."""
    terms = gradient.bias if isinstance(gradient.bias, tuple) else (gradient.bias,)
    beside = {f"bias {i}": x for i, x in enumerate(terms)} | {"sinks": gradient.sinks} | gradient.score
    return {name: x for name, x in (dict(zip("qkv", gradient, strict=False)) | beside).items() if x is not None}


def arrays(T: int = 96, S: int = 96, H: int = 4, G: int = 2, D: int = 16) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in ((2, H, T, D), (2, G, S, D), (2, G, S, 8))]


def chunks(whole: list[np.ndarray], size: int = 16) -> list[Any]:
    return [da.from_array(x, (1, 2 if i == 0 else 1, size, -1)) for i, x in enumerate(whole)]


def keys(x: Any, name: str) -> list[Any]:
    """Keys of the tasks of a kind."""
    return [key for key in dict(x.dask) if isinstance(key, tuple) and str(key[0]).startswith(name)]


@pytest.mark.parametrize(
    "mask",
    [
        None,
        overt.causal(),
        overt.window(20, 0),
        overt.window(0, 0) | overt.causal() & overt.padding(np.array([5, 70])),
        overt.documents(np.repeat([0, 1, 2], 32)),
        overt.packed(np.array([0, 40, 96])) & overt.causal(),
        overt.documents(np.arange(96) // 8 % 4),
        overt.where(lambda b, h, t, s: (t // 16 + s // 16 + h // 2) % 3 == b),
        overt.keep(np.kron(np.eye(6, dtype=bool), np.ones((16, 16), bool))),
        overt.padding(np.array([0, 33])),
    ],
    ids=repr,
)
def test_one_task_for_each_pair_that_the_mask_leaves(mask: Any) -> None:
    whole = arrays()
    seen = overt.dask.attend(*chunks(whole), mask=mask)
    dense = np.ones((2, 4, 96, 96), bool) if mask is None else mask.dense(96, 96, (2,), 4)
    left = sum(
        bool(dense[b, 2 * h : 2 * h + 2, 16 * i : 16 * i + 16, 16 * j : 16 * j + 16].any())
        for b, h, i, j in product(range(2), range(2), range(6), range(6))
    )
    assert 0 < left <= 144
    assert len(keys(seen.output, "pair-overt-attend")) == left
    assert len(keys(seen.received(), "pair-overt-statistics")) == left
    expected = overt.attend(*whole, mask=mask)
    for x, y in zip(dask.compute(seen.output, seen.received()), (expected.output, expected.received()), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("length", "mask", "left"),
    [
        # A function is asked, pair by pair: of 2²⁸ cells, every second diagonal of chunks, and none.
        (2**14, overt.where(lambda b, h, t, s: (t >> 12) + (s >> 12) & 1 == 0), 8),
        (2**14, overt.causal() & overt.where(lambda b, h, t, s: s < 0), 0),
        (2**14, ~overt.where(lambda b, h, t, s: s >= 2**12), 4),
        # Of 2³⁶ cells nobody looks at each, and only what masks are made of hides.
        (2**18, overt.documents(np.arange(2**18) // 2**15 % 4), 16),
        (2**18, overt.documents(np.arange(2**18) // 2**15 % 4) & overt.causal(), 12),
        (2**18, overt.window(2**16 - 1, 0) | overt.keep(np.arange(2**18) < 9), 4 * 2 - 1 + 2),
        (2**18, overt.causal() & overt.where(lambda b, h, t, s: s < 0), 10),
    ],
    ids=repr,
)
def test_large_matrices_have_no_tasks_for_what_is_hidden(length: int, mask: Any, left: int) -> None:
    size = 2**12 if length == 2**14 else 2**15 if "documents" in repr(mask) else 2**16
    q = da.zeros((1, length, 4), chunks=(1, size, 4), dtype=np.float32)
    seen = overt.dask.attend(q, q, q, mask=mask)
    assert len(keys(seen.output, "pair-overt-attend")) == left


def test_no_task_holds_the_matrix() -> None:
    sizes: list[int] = []

    class Sizes(dask.callbacks.Callback):  # type: ignore[misc]  # untyped
        def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            parts = result if isinstance(result, tuple) else (result,)
            sizes.extend(x.nbytes for x in parts if isinstance(x, np.ndarray))

    rng = np.random.default_rng(0)
    q, k, v = (da.from_array(rng.normal(size=(4096, 8)).astype(np.float32), (256, -1)) for _ in range(3))
    seen = overt.dask.attend(q, k, v, mask=overt.causal())
    with Sizes():
        dask.compute(seen.output, seen.received(), seen.entropy(), seen.top(4), scheduler="sync")
    # Not even that of one pair of chunks: the largest is a whole array.
    assert max(sizes) <= 4096 * 8 * 4


def test_nothing_is_computed_before_it_is_asked_for() -> None:
    def fail() -> np.ndarray:
        raise AssertionError("computed")

    q = da.from_delayed(dask.delayed(fail)(), (1, 8, 4), np.float32)
    seen = overt.dask.attend(q, q, q, mask=overt.causal())
    assert seen.output.shape == (1, 8, 4)
    assert seen.received().shape == seen.entropy().shape == (1, 8)
    with pytest.raises(AssertionError, match="computed"):
        seen.output.compute(scheduler="sync")


def test_results_are_parts_of_larger_graphs() -> None:
    whole = arrays()
    q, k, v = chunks(whole)
    y = overt.dask.attention(q * 2, k + 0, v, mask=overt.causal())
    expected = overt.attention(whole[0] * 2, whole[1], whole[2], mask=overt.causal())
    np.testing.assert_allclose((y[:, :, 5:40] ** 2).sum().compute(), (expected[:, :, 5:40] ** 2).sum(), rtol=1e-5)
    rows = overt.dask.attend(q, k, v, mask=overt.causal()).weights[1, 2, 20:24]
    np.testing.assert_allclose(rows, overt.attend(*whole, mask=overt.causal()).weights[1, 2, 20:24], rtol=1e-5)
    # What is cut away is not computed.
    assert len(rows.__dask_optimize__(rows.dask, rows.__dask_keys__())) < len(y.dask)


def test_masks_and_biases_that_are_dask_arrays() -> None:
    whole, rng = arrays(), np.random.default_rng(1)
    for shape in ((2, 4, 96, 96), (96, 96), (2, 1, 1, 96), (4, 96, 1)):
        keep, bias = rng.random(shape) < 0.7, rng.normal(size=shape).astype(np.float32)
        lazy = {"mask": da.from_array(keep, chunks=20), "bias": da.from_array(bias, chunks=24)}
        seen = overt.dask.attend(*chunks(whole), **lazy)
        expected = overt.attend(*whole, mask=keep, bias=bias)
        found = dask.compute(seen.output, seen.entropy(), scheduler="sync")
        for x, y in zip(found, (expected.output, expected.entropy()), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("given_heads", [True, False])
def test_leading_axes(given_heads: bool) -> None:
    rng = np.random.default_rng(0)
    shapes = [(2, 3, 4, 20, 8), (3, 2, 30, 8), (1, 3, 2, 30, 6)] if given_heads else [(20, 8), (30, 8), (30, 6)]
    whole = [rng.normal(size=shape) for shape in shapes]
    lazy = [da.from_array(x, chunks=(1,) * (x.ndim - 2) + (11, 4)) for x in whole]
    seen, expected = overt.dask.attend(*lazy), overt.attend(*whole)
    np.testing.assert_allclose(seen.output, expected.output, rtol=1e-12)
    np.testing.assert_allclose(seen.received(), expected.received(), rtol=1e-12)


def test_what_is_wrong_is_said_at_once() -> None:
    q, k, v = chunks(arrays())
    with pytest.raises(ShapeError, match="v has 95 positions but k has 96"):
        overt.dask.attention(q, k, v[:, :, :-1])
    with pytest.raises(DtypeError, match="q is float64"):
        overt.dask.attention(q.astype(float), k, v)
    with pytest.raises(DtypeError, match="masks are boolean"):
        overt.dask.attention(q, k, v, mask=da.zeros((96, 96)))
    with pytest.raises(ShapeError, match="bias has shape"):
        overt.dask.attention(q, k, v, bias=da.zeros((96, 95), dtype=np.float32))
    with pytest.raises(ShapeError, match="compute_chunk_sizes"):
        overt.dask.attention(q, k[k > 0], v)
    with pytest.raises(DtypeError, match="k is a list, not a Dask array"):
        overt.dask.attention(q, [1.0], v)
    for hidden in (np.ma.masked_less(arrays()[0], 0), da.from_array(np.ma.masked_less(arrays()[0], 0))):
        with pytest.raises(DtypeError, match="q is a MaskedArray, not a plain array"):
            overt.dask.attention(hidden, k, v)
    seen = overt.dask.attend(q, k, v)
    with pytest.raises(ArgumentError, match="top"):
        seen.top(97)
    with pytest.raises(ArgumentError, match="pool"):
        seen.map(2, 2, "sum")
    assert "144 of 144 pairs of chunks" in repr(seen)


def test_numbers_near_the_end_of_the_range() -> None:
    q, k, v = (100 * x for x in arrays())
    expected = overt.attend(q.astype(float), k.astype(float), v.astype(float), mask=overt.causal())
    seen = overt.dask.attend(*chunks([q, k, v]), mask=overt.causal())
    # Scores of 1e5 are rounded to about 0.01; weights are as good as those of undivided arrays.
    undivided = overt.attend(q, k, v, mask=overt.causal())
    error = abs(np.asarray(undivided.weights) - np.asarray(expected.weights)).max()
    assert abs(seen.weights.compute() - np.asarray(expected.weights)).max() <= max(2 * error, 1e-5)
    np.testing.assert_allclose(seen.weights.sum(axis=-1).compute(), 1, rtol=1e-4)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two worker processes on this machine, of a cluster that is not closed but ended.

    LocalCluster follows the workers that come and go and cannot be closed after one that it had not heard of has died.
    """
    folder = tmp_path_factory.mktemp("cluster")
    places = ["--scheduler-file", str(folder / "scheduler.json"), "--host", "127.0.0.1", "--no-dashboard"]
    workers = ["--nworkers", "2", "--nthreads", "1", "--local-directory", str(folder)]
    settings = {
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "false",
    }
    with ExitStack() as stack:
        for role, options in ("dask_scheduler", ["--port", "0"]), ("dask_worker", workers):
            command = [sys.executable, "-m", f"distributed.cli.{role}", *places, *options]
            stack.enter_context(process(command, os.environ | settings))
        client = stack.enter_context(distributed.Client(scheduler_file=places[1], timeout=60))
        client.wait_for_workers(2, timeout=60)
        yield client


@contextmanager
def process(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """A process that is asked to end afterwards, and killed where it does not."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdout=quiet, stderr=quiet, stdin=quiet) as running:
        try:
            yield
        finally:
            running.terminate()
            try:
                running.wait(10)
            except subprocess.TimeoutExpired:
                running.kill()


def test_two_processes(client: Any) -> None:
    whole = arrays(S=160)
    options = {
        "mask": overt.causal() | overt.where(lambda b, h, t, s: s % 7 == h),
        "bias": overt.alibi(overt.positions.alibi_slopes(4)),
        "sinks": np.ones(4, np.float32),
    }
    seen, expected = overt.dask.attend(*chunks(whole, 40), **options), overt.attend(*whole, **options)
    asked = client.persist([seen.output, seen.lse, seen.received(), seen.entropy(), *seen.top(4)])
    distributed.wait(asked)
    # Both have computed.
    assert [bool(held) for held in client.has_what().values()] == [True, True]
    found = dask.compute(*asked)
    wanted = [expected.output, expected.lse, expected.received(), expected.entropy(), *expected.top(4)]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=2e-6)


def dying(marker: Path, times: int) -> Any:
    """A task that kills its process, so many times altogether."""

    def die(x: np.ndarray) -> np.ndarray:
        deaths = marker.stat().st_size if marker.exists() else 0
        if x.size and deaths < times:
            with marker.open("a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return x

    return die


def test_a_killed_worker_is_replaced_and_no_number_is_wrong(client: Any, tmp_path: Path) -> None:
    whole = arrays()
    q, k, v = chunks(whole, 12)
    # Some chunk in the middle, when others have been computed already, is fatal to the first that takes it up.
    v = da.concatenate(
        [v[:, :, :48], v[:, :, 48:60].map_blocks(dying(tmp_path / "deaths", 1), meta=v._meta), v[:, :, 60:]], axis=2
    )
    seen = overt.dask.attend(q, k, v, mask=overt.causal(), dropout=overt.dropout(0.2, 1))
    expected = overt.attend(*whole, mask=overt.causal(), dropout=overt.dropout(0.2, 1))
    dy = np.ones(expected.output.shape, np.float32)
    wanted = [expected.output, expected.received(), expected.entropy(), *expected.gradient(dy)[:3]]
    future = client.compute([seen.output, seen.received(), seen.entropy(), *seen.gradient(dy)[:3]])
    for x, y in zip(client.gather(future), wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=4e-6)
    assert (tmp_path / "deaths").read_text() == "x"


def test_what_kills_every_worker_is_an_error(client: Any, tmp_path: Path) -> None:
    q, k, v = chunks(arrays(), 48)
    v = v.map_blocks(dying(tmp_path / "deaths", 1000), meta=v._meta)
    with pytest.raises(distributed.KilledWorker, match="die"):
        client.gather(client.compute(overt.dask.attention(q, k, v)))
