"""The cache, step by step, cropped, reordered and thinned out, against attention to what it should hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import overt
from overt.errors import ArgumentError, DtypeError, OvertError, ShapeError

B, H, G, T, S, D, E = 2, 4, 2, 10, 12, 5, 3


def normal(*shape: int, seed: int = 0, dtype: Any = np.float64) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


Q, K, V = normal(B, H, T, D), normal(B, G, S, D, seed=1), normal(B, G, S, E, seed=2)
TABLE = normal(8, H, seed=4)
SLOPES = np.array([0.1, 0.2, 0.4, 0.8])


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)


def prefill(**options: Any) -> overt.Attended:
    return overt.attend(Q, K[..., :T, :], V[..., :T, :], **{"mask": overt.causal(), **options})


STEPS = {
    "plain": {},
    "alibi": {"bias": overt.alibi(SLOPES)},
    "relative": {"bias": overt.relative(TABLE, bidirectional=False, max_distance=9)},
    "window": {"mask": overt.window(3, 0)},
    "all": {"softcap": 2.0, "sinks": SLOPES, "mask": overt.window(3, 0), "bias": overt.alibi(SLOPES)},
    "cosine": {"score": overt.cosine(3.0)},
    "additive": {"score": overt.additive(normal(6, D), normal(6, D, seed=1), normal(6))},
}


@pytest.mark.parametrize("chunks", [[1] * T, [3, 4, 3], [T], [1, 8, 1], [0, 5, 0, 5]], ids=str)
@pytest.mark.parametrize("name", STEPS)
def test_decoding_step_by_step(name: str, chunks: list[int]) -> None:
    whole = prefill(**STEPS[name])
    cache = overt.Cache(**STEPS[name])
    assert len(cache) == 0
    end = 0
    for n in chunks:
        start, end = end, end + n
        cache.append(K[..., start:end, :], V[..., start:end, :])
        assert len(cache) == end
        seen = cache.attend(Q[..., start:end, :])
        close(seen.output, whole.output[..., start:end, :])
        close(seen.lse, whole.lse[..., start:end])
        close(seen.weights[...], whole.weights[..., start:end, :end])
    np.testing.assert_array_equal(cache.keys, K[..., :T, :])
    np.testing.assert_array_equal(cache.values, V[..., :T, :])


def test_a_cache_without_a_mask_sees_everything() -> None:
    cache = overt.Cache(mask=None)
    cache.append(K, V)
    close(cache.attend(Q).output, overt.attention(Q, K, V))


def test_a_cache_without_heads() -> None:
    cache = overt.Cache()
    for t in range(T):
        cache.append(K[0, 0, t : t + 1], V[0, 0, t : t + 1])
    close(cache.attend(Q[0, 0]).output, overt.attention(Q[0, 0], K[0, 0, :T], V[0, 0, :T], mask=overt.causal()))


def test_a_cache_grows_by_doubling() -> None:
    cache = overt.Cache()
    bases = set()
    for _ in range(1000):
        cache.append(np.ones((1, 1, 4), np.float16), np.ones((1, 1, 2), np.float16))
        bases.add(cache.keys.base.ctypes.data if cache.keys.base is not None else 0)
        assert cache.keys.base is None or cache.keys.base.shape[-2] <= max(16, 2 * len(cache))
    assert len(bases) <= 8
    assert cache.keys.shape == (1, 1000, 4)
    assert cache.keys.dtype == np.float16


def test_what_was_seen_stays_as_it_was() -> None:
    cache = overt.Cache()
    k = K[..., :4, :].copy()
    cache.append(k, V[..., :4, :])
    k[...] = np.nan
    seen = cache.attend(Q[..., :4, :])
    expected = np.asarray(seen.weights)
    for _ in range(5):
        cache.append(K[..., 4:8, :], V[..., 4:8, :])
    close(seen.weights[...], expected)
    assert seen.received().shape == (B, H, 4)


def test_keys_and_values_are_read_only() -> None:
    cache = overt.Cache()
    cache.append(K, V)
    for view in (cache.keys, cache.values):
        with pytest.raises(ValueError, match="read-only"):
            view[...] = 0
    cache.append(K, V)
    assert len(cache) == 2 * S


def test_an_empty_cache_says_so() -> None:
    cache = overt.Cache()
    for ask in (lambda: cache.keys, lambda: cache.values, lambda: cache.attend(Q)):
        with pytest.raises(ArgumentError, match=r"no keys|no values"):
            ask()


@pytest.mark.parametrize(
    ("k", "v", "error", "message"),
    [
        (K[..., :3, :], V[..., :2, :], ShapeError, r"v has 2 positions but k has 3"),
        (K[:, :1], V[:, :1], ShapeError, r"k has shape \(2, 1, 12, 5\).*holds \(2, 2, 4, 5\)"),
        (K[:, :1], V, ShapeError, r"v has 2 heads but k has 1"),
        (K[0], V, ShapeError, r"k \(2, 12, 5\) and v \(2, 2, 12, 3\) differ in their leading axes"),
        (K[:1], V, ShapeError, r"k \(1, 2, 12, 5\) and v \(2, 2, 12, 3\) differ in their leading axes"),
        (K[..., :4], V, ShapeError, r"k has shape \(2, 2, 12, 4\).*holds \(2, 2, 4, 5\)"),
        (K, V[..., :1], ShapeError, r"v has shape \(2, 2, 12, 1\).*holds \(2, 2, 4, 3\)"),
        (K[:1], V[:1], ShapeError, r"k has shape \(1, 2, 12, 5\).*holds"),
        (K[0], V[0], ShapeError, r"k has shape \(2, 12, 5\).*holds"),
        (K.astype(np.float32), V.astype(np.float32), DtypeError, r"float32.*holds float64.*astype"),
        (K, V.astype(np.float32), DtypeError, r"^k is float64, v is float32"),
        (K.tolist(), V.tolist(), DtypeError, r"^k is a list"),
        (None, None, DtypeError, r"^k is a NoneType"),
        (K, None, DtypeError, r"^v is a NoneType"),
        (np.ones, V, DtypeError, r"^k is the function ones"),
        (np.ma.array(K), V, DtypeError, r"^k is a MaskedArray"),
        (K, V.astype(complex), DtypeError, r"^v has dtype complex128"),
        (K.astype(int), V.astype(int), DtypeError, r"^k has dtype int64"),
        (K[0, 0, 0], V[0, 0, 0], ShapeError, r"^k has shape \(5,\).*\(…, G, N, D\)"),
        (K, V[0, 0, 0], ShapeError, r"^v has shape \(3,\).*\(…, G, N, E\)"),
        (torch.from_numpy(K), torch.from_numpy(V), DtypeError, r"^k is a Tensor, but the cache holds a ndarray"),
        (K, torch.from_numpy(V), DtypeError, r"one library.*k numpy.*v torch"),
    ],
    ids=range(22),
)
def test_what_does_not_fit_leaves_the_cache_as_it_was(k: Any, v: Any, error: type, message: str) -> None:
    cache = overt.Cache()
    with pytest.raises(ArgumentError):
        _ = cache.keys
    cache.append(K[..., :4, :], V[..., :4, :])
    expected = cache.attend(Q[..., :4, :]).output
    with pytest.raises(error, match=message):
        cache.append(k, v)
    assert len(cache) == 4
    np.testing.assert_array_equal(cache.keys, K[..., :4, :])
    np.testing.assert_array_equal(cache.values, V[..., :4, :])
    np.testing.assert_array_equal(cache.attend(Q[..., :4, :]).output, expected)


def test_a_first_append_that_fails_leaves_the_cache_empty() -> None:
    cache = overt.Cache()
    with pytest.raises(OvertError):
        cache.append(K, V[..., :2, :])
    assert len(cache) == 0
    cache.append(K[0], V[0])
    assert cache.keys.shape == K[0].shape


def test_memory_that_ends_half_way_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = overt.Cache()
    cache.append(K[..., :16, :], V[..., :16, :])
    grow, calls = overt.Cache._grown, []

    def failing(self: overt.Cache, held: Any, new: Any) -> Any:
        calls.append(new)
        if len(calls) == 2:
            raise MemoryError
        return grow(self, held, new)

    monkeypatch.setattr(overt.Cache, "_grown", failing)
    with pytest.raises(MemoryError):
        cache.append(-K, -V)
    np.testing.assert_array_equal(cache.keys, K)
    np.testing.assert_array_equal(cache.values, V)


# Tensors.


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["plain", "all", "relative"])
def test_tensors_step_by_step(name: str, dtype: torch.dtype) -> None:
    q, k, v = (torch.from_numpy(x).to(dtype) for x in (Q, K, V))
    options = {n: torch.from_numpy(x).to(dtype) if n == "sinks" else x for n, x in STEPS[name].items()}
    whole = overt.attend(q, k[..., :T, :], v[..., :T, :], **{"mask": overt.causal(), **options})
    cache = overt.Cache(**options)
    for t in range(T):
        cache.append(k[..., t : t + 1, :], v[..., t : t + 1, :])
        y = cache.attend(q[..., t : t + 1, :]).output
        assert (type(y), y.dtype) == (torch.Tensor, dtype)
        tolerance = {torch.float64: 1e-9, torch.float32: 1e-5}.get(dtype, 0.02)
        torch.testing.assert_close(y, whole.output[..., t : t + 1, :], rtol=tolerance, atol=tolerance)
    assert torch.equal(cache.keys, k[..., :T, :])
    cache.keep(torch.tensor([1, 5, 8]))
    assert torch.equal(cache.values, v[..., [1, 5, 8], :])
    cache.reorder(torch.tensor([1, 1, 0]))
    assert torch.equal(cache.keys, k[[1, 1, 0]][..., [1, 5, 8], :])
    cache.crop(6)
    assert torch.equal(cache.keys, k[[1, 1, 0]][..., [1, 5], :])
    assert cache.attend(q[:1, :, :1].expand(3, -1, -1, -1)).output.shape == (3, H, 1, E)


def test_tensors_are_checked() -> None:
    k, v = torch.from_numpy(K), torch.from_numpy(V)
    cache = overt.Cache()
    with pytest.raises(ArgumentError, match=r"k wants a gradient.*no_grad"):
        cache.append(k.clone().requires_grad_(), v)
    assert len(cache) == 0
    cache.append(k, v)
    with pytest.raises(DtypeError, match=r"k is on meta, but the cache is on cpu"):
        cache.append(k.to("meta"), v.to("meta"))
    with pytest.raises(DtypeError, match=r"k is float32, but the cache holds float64"):
        cache.append(k.float(), v.float())
    with pytest.raises(DtypeError, match=r"k is a ndarray, but the cache holds a Tensor"):
        cache.append(K, V)
    assert len(cache) == S


def test_a_cache_reads_nothing_back_from_a_device() -> None:
    # On meta there are no numbers to read.
    k, v = torch.empty(2, 2, 6, 4, device="meta"), torch.empty(2, 2, 6, 3, device="meta")
    cache = overt.Cache()
    cache.append(k, v)
    cache.keep([1, 2, 5])
    cache.reorder([0, 0, 1])
    cache.append(k[[0, 0, 0], :, :1], v[[0, 0, 0], :, :1])
    assert cache.attend(torch.empty(3, 4, 1, 4, device="meta")).output.shape == (3, 4, 1, 3)
    cache.crop(3)
    assert (cache.keys.shape, cache.keys.device.type, cache.end) == ((3, 2, 2, 4), "meta", 3)


def test_arrays_that_nobody_can_write_to() -> None:
    jax = pytest.importorskip("jax")
    cache = overt.Cache()
    for t in range(3):
        cache.append(*(jax.numpy.asarray(x[..., t : t + 1, :], "float32") for x in (K, V)))
    np.testing.assert_array_equal(np.asarray(cache.keys), K[..., :3, :].astype(np.float32))
    cache.keep([0, 2])
    np.testing.assert_array_equal(np.asarray(cache.keys), K[..., [0, 2], :].astype(np.float32))


# Cropping, reordering, keeping.


def filled(n: int = T, **options: Any) -> overt.Cache:
    cache = overt.Cache(**options)
    cache.append(K[..., :n, :], V[..., :n, :])
    return cache


@pytest.mark.parametrize("name", STEPS)
def test_cropped_is_never_seen(name: str) -> None:
    cache = filled(4, **STEPS[name])
    before = cache.attend(Q[..., :4, :])
    expected = before.weights[...], before.received()
    # A draft that is refused.
    cache.append(-K[..., 4:9, :], -V[..., 4:9, :])
    drafted = cache.attend(Q[..., 4:9, :])
    weights = drafted.weights[...]
    cache.crop(4)
    assert (len(cache), cache.end) == (4, 4)
    cache.append(K[..., 4:7, :], V[..., 4:7, :])
    whole = prefill(**STEPS[name])
    close(cache.attend(Q[..., 4:7, :]).output, whole.output[..., 4:7, :])
    # And what was looked at before stays as it was.
    close(drafted.weights[...], weights)
    close(before.weights[...], expected[0])
    close(before.received(), expected[1])
    cache.crop(0)
    assert cache.keys.shape == (B, G, 0, D)
    cache.append(K[..., :2, :], V[..., :2, :])
    close(cache.attend(Q[..., :2, :]).output, whole.output[..., :2, :])


def test_beams() -> None:
    cache = filled(4)
    cache.reorder([1, 1, 0])
    cache.append(K[[1, 1, 0]][..., 4:5, :], V[[1, 1, 0]][..., 4:5, :])
    expected = overt.attention(Q[..., 4:5, :], K[..., :5, :], V[..., :5, :], mask=overt.causal())
    close(cache.attend(Q[[1, 1, 0]][..., 4:5, :]).output, expected[[1, 1, 0]])
    cache.keep([0, 3])
    cache.reorder(np.array([2]))
    np.testing.assert_array_equal(cache.keys, K[:1][..., [0, 3], :])
    assert cache.positions.tolist() == [[[0, 3], [0, 3]]]


@st.composite
def choices(draw: st.DrawFn) -> np.ndarray:
    """Indices to keep, for all rows and heads alike or for each."""
    lead = draw(st.sampled_from([(), (G,), (B, 1), (B, G), (1, G)]))
    count = draw(st.integers(0, T))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    rows = [rng.permutation(T)[:count] for _ in range(int(np.prod(lead)))]
    return np.array(rows, int).reshape(*lead, count)


KEPT: dict[str, dict[str, Any]] = {
    **STEPS,
    "nothing": {"mask": None},
    "padding": {"mask": overt.padding(np.array([4, 9])) | overt.window(1, 0)},
    "gaps": {"mask": overt.causal() & ~overt.window(4, -0) | overt.window(0, 0)},
    "prefix": {"mask": overt.prefix(np.array([3, 2]))},
    "where": {"mask": overt.where(lambda b, h, t, s: (b + h + s) % 3 > 0)},
    "top left": {"mask": overt.causal(offset=np.array([5, 8]))},
    "sum": {"bias": overt.alibi(SLOPES) + overt.relative(TABLE, max_distance=9), "mask": overt.window(7, 0)},
}


@given(indices=choices(), name=st.sampled_from(sorted(KEPT)), more=st.integers(0, 2), t=st.integers(1, 3))
def test_kept_keys_stay_where_they_stood(indices: np.ndarray, name: str, more: int, t: int) -> None:
    """The same as a mask over all keys that hides those that were forgotten."""
    cache = filled(T, **KEPT[name])
    cache.keep(indices)
    end = T + more
    cache.append(K[..., T:end, :], V[..., T:end, :])
    assert (cache.end, len(cache)) == (end, indices.shape[-1] + more)
    held = np.zeros((B, G, end), bool)
    held[..., T:] = True
    np.put_along_axis(held, np.broadcast_to(indices, (B, G, indices.shape[-1])), True, axis=-1)
    np.testing.assert_array_equal(cache.positions, np.nonzero(held)[2].reshape(B, G, -1))

    options = {"mask": overt.causal(), **KEPT[name]}
    hidden = overt.keep(np.repeat(held, H // G, axis=1)[:, :, None, :])
    options["mask"] = hidden if options["mask"] is None else options["mask"] & hidden
    expected = overt.attend(Q[..., :t, :], K[..., :end, :], V[..., :end, :], **options)
    seen = cache.attend(Q[..., :t, :])
    close(seen.output, expected.output)
    close(seen.lse, expected.lse)
    close(seen.entropy(), expected.entropy())
    own = np.repeat(held, H // G, axis=1)[:, :, None, :]
    weights = expected.weights[...][np.broadcast_to(own, expected.weights.shape)].reshape(B, H, t, -1)
    close(seen.weights[...], weights)
    close(seen.received(), weights.sum(axis=-2))
    if weights.size:
        close(seen.weights[..., [0], [weights.shape[-1] - 1]], weights[..., [0], [-1]])
    close(
        overt.trace(
            Q[..., :t, :], cache.keys, cache.values, mask=seen.problem.mask, bias=seen.problem.bias, **cache._options
        )["weights"],
        weights,
    )
    dy = normal(B, H, t, E)
    got, wanted = seen.gradient(dy), expected.gradient(dy)
    close(got.q, wanted.q)
    close(got.v, wanted.v[held].reshape(B, G, -1, E))
    parts = [x if isinstance(x, tuple) else (x,) for x in (got.bias, wanted.bias)]
    for one, other in zip(*parts, strict=True):
        if other is not None:
            close(one, other)


@pytest.mark.parametrize("name", KEPT)
def test_kept_tensors(name: str) -> None:
    indices = np.array([[[1, 2, 5, 9], [0, 3, 4, 8]]])
    caches = [overt.Cache(**KEPT[name]) for _ in range(2)]
    caches[0].append(K, V)
    caches[1].append(torch.from_numpy(K), torch.from_numpy(V))
    for cache in caches:
        cache.keep(indices)
    expected, seen = caches[0].attend(Q[..., :2, :]), caches[1].attend(torch.from_numpy(Q[..., :2, :]))
    gradient = expected.gradient(normal(B, H, 2, E))
    got = seen.gradient(torch.from_numpy(normal(B, H, 2, E)))
    for one, other in (
        (seen.output, expected.output),
        (seen.lse, expected.lse),
        (seen.entropy(), expected.entropy()),
        (seen.weights[...], expected.weights[...]),
        (got.q, gradient.q),
        *zip(*(x if isinstance(x, tuple) else (x,) for x in (got.bias, gradient.bias)), strict=True),
    ):
        assert (one is None) == (other is None)
        if one is not None:
            close(one, other)


def test_keys_are_thinned_out_again_and_again() -> None:
    cache = filled(10)
    cache.keep([0, 4, 5, 9])
    cache.append(K[..., 10:11, :], V[..., 10:11, :])
    cache.keep([4, 0, 2])
    assert cache.positions[0, 0].tolist() == [0, 5, 10]
    cache.crop(10)
    assert (cache.positions[0, 0].tolist(), cache.end) == ([0, 5], 10)
    with pytest.raises(ValueError, match="read-only"):
        cache.positions[...] = 0


def test_the_heaviest_keys_are_kept() -> None:
    # What H2O does: of the keys that each head attended to, those with the most weight.
    cache = filled(8)
    received = cache.attend(Q[..., :8, :]).received().reshape(B, G, H // G, 8).sum(axis=2)
    heaviest = np.argsort(-received, axis=-1)[..., :3]
    cache.keep(heaviest)
    for b in range(B):
        for g in range(G):
            np.testing.assert_array_equal(cache.keys[b, g], K[b, g, np.sort(heaviest[b, g])])


def test_a_kept_window_is_still_a_span() -> None:
    # A long cache is not looked at key by key to find the few that a window shows.
    cache = filled(T, mask=overt.window(3, 0))
    cache.keep([0, 2, 3, 6, 8])
    mask = cache.attend(Q[..., :1, :]).problem.mask
    assert mask is not None
    assert mask.plan(1, 5, (B,), H).rest is None


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda cache: cache.crop(5), ArgumentError, r"ends at position 4.*not 5"),
        (lambda cache: cache.crop(-1), ArgumentError, r"length must be at least 0"),
        (lambda cache: cache.crop(2.0), ArgumentError, r"length must be a whole number"),
        (lambda cache: cache.keep([4]), ArgumentError, r"keys to keep must lie in 0…3, not 4…4"),
        (lambda cache: cache.keep([-1]), ArgumentError, r"keys to keep must lie in 0…3"),
        (lambda cache: cache.keep([1, 1]), ArgumentError, r"name a key twice"),
        (lambda cache: cache.keep(2), ShapeError, r"keys to keep have shape \(\): give \(N,\), or \(2, 2, 'N'\)"),
        (lambda cache: cache.keep(np.zeros((3, 2, 1), int)), ShapeError, r"shape \(3, 2, 1\)"),
        (lambda cache: cache.keep([0.5]), DtypeError, r"keys to keep must be integers"),
        (lambda cache: cache.keep([True, False, True, True]), DtypeError, r"keys to keep must be integers, not bool"),
        (lambda cache: cache.keep(len), DtypeError, r"keys to keep is the function len"),
        (lambda cache: cache.reorder([2]), ArgumentError, r"beams must lie in 0…1"),
        (lambda cache: cache.reorder([[0]]), ShapeError, r"beams have shape \(1, 1\)"),
    ],
    ids=range(13),
)
def test_what_cannot_be_forgotten(ask: Any, error: type, message: str) -> None:
    cache = filled(4)
    with pytest.raises(error, match=message):
        ask(cache)
    np.testing.assert_array_equal(cache.keys, K[..., :4, :])
    with pytest.raises(ArgumentError, match="no keys yet"):
        overt.Cache().keep([0])


def test_rows_stay_of_one_length() -> None:
    cache = filled(4)
    cache.keep(np.array([[[0, 1]], [[0, 3]]]))
    with pytest.raises(ArgumentError, match=r"1 to 2 of the keys.*position 2"):
        cache.crop(2)
    assert len(cache) == 2
    cache.crop(1)
    assert len(cache) == 1
    alone = overt.Cache()
    alone.append(K[0], V[0])
    with pytest.raises(ShapeError, match="without a batch axis"):
        alone.reorder([0])


def test_without_heads_there_is_one() -> None:
    cache = overt.Cache(bias=overt.alibi(np.array([0.3])))
    cache.append(K[0, 0], V[0, 0])
    cache.keep([1, 2, 7])
    assert cache.positions.tolist() == [1, 2, 7]
    bias = -0.3 * np.abs(np.array([1, 2, 7]) - (S - 1))
    close(
        cache.attend(Q[0, 0, :1]).output,
        overt.attention(Q[0, 0, :1], K[0, 0, [1, 2, 7]], V[0, 0, [1, 2, 7]], bias=bias),
    )


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("change", ["crop", "crop to nothing", "reorder", "keep"])
def test_nothing_is_appended_to_what_was_changed(change: str, tensors: bool) -> None:
    def given(x: np.ndarray) -> Any:
        return torch.from_numpy(x.copy()) if tensors else x

    cache: overt.Cache[Any] = overt.Cache()
    cache.append(given(K), given(V))
    {
        "crop": lambda: cache.crop(4),
        "crop to nothing": lambda: cache.crop(0),
        "reorder": lambda: cache.reorder([1, 0]),
        "keep": lambda: cache.keep([1, 3]),
    }[change]()
    held, positions, end = np.asarray(cache.keys).copy(), cache.positions, cache.end
    cache.append(given(K[:, :, :0]), given(V[:, :, :0]))
    np.testing.assert_array_equal(np.asarray(cache.keys), held)
    np.testing.assert_array_equal(cache.positions, positions)
    assert cache.end == end
    assert tensors or not cache.keys.flags.writeable
    assert not cache.positions.flags.writeable
    cache.append(given(K[:, :, :1]), given(V[:, :, :1]))
    np.testing.assert_array_equal(np.asarray(cache.keys), np.concatenate([held, K[:, :, :1]], axis=-2))
