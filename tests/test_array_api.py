"""Every public function on arrays of a library that knows the array API standard and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import overt
from overt import layers

Call = Callable[[Callable[[np.ndarray], Any]], Any]


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).normal(size=shape)


Q, K, V = draw(2, 4, 6, 8), draw(2, 2, 7, 8), draw(2, 2, 7, 5)
BITS = np.random.default_rng(0).random((6, 7)) < 0.5
WHERE = overt.where(lambda b, h, t, s: s <= t)


def back(x: Any) -> Any:
    """Results as NumPy's, each of which must be the library's own, or NumPy's where NumPy asked."""
    if isinstance(x, tuple | list):
        return [back(part) for part in x]
    if isinstance(x, dict):
        return {name: back(part) for name, part in x.items()}
    return np.asarray(x) if hasattr(x, "dtype") else x


def check(call: Call, *, tolerance: float = 1e-12) -> None:
    """The same call on arrays of both libraries."""
    kinds: list[type] = []

    def given(x: np.ndarray) -> Any:
        kinds.append(type(x))
        return strict.asarray(x)

    got, expected = call(given), call(lambda x: x)
    assert kinds
    first = got[0] if isinstance(got, tuple | list) else got
    assert isinstance(first, type(strict.asarray(1)))
    compare(back(got), back(expected), tolerance)


def compare(got: Any, expected: Any, tolerance: float) -> None:
    if isinstance(expected, list):
        for one, other in zip(got, expected, strict=True):
            compare(one, other, tolerance)
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys()
        compare(list(got.values()), list(expected.values()), tolerance)
    elif expected is None:
        assert got is None
    else:
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


# What stands beside q, k and v, made of arrays of the library, or of NumPy's.
OPTIONS: dict[str, Callable[[Callable[[np.ndarray], Any]], dict[str, Any]]] = {
    "nothing": lambda x: {},
    "causal": lambda x: {"mask": overt.causal()},
    "offsets": lambda x: {"mask": overt.causal(x(np.array([0, 1])))},
    "window": lambda x: {"mask": overt.window(2, 1)},
    "padding": lambda x: {"mask": overt.padding(x(np.array([3, 7])))},
    "prefix": lambda x: {"mask": overt.prefix(x(np.array([3, 7])))},
    "documents": lambda x: {"mask": overt.documents(x(np.array([0, 0, 1, 1, 1, 2, 2])))},
    "both ids": lambda x: {
        "mask": overt.documents(x(np.array([0, 0, 1, 1, 1, 2])), x(np.array([0, 1, 0, 1, 1, 2, 2])))
    },
    "packed": lambda x: {
        "mask": overt.packed(x(np.array([0, 3, 6])), x(np.array([0, 3, 7]))) & overt.causal(),
        "bias": overt.alibi(x(np.array([0.1, 0.2, 0.4, 0.8]))),
    },
    "keep": lambda x: {"mask": overt.keep(x(BITS))},
    "booleans": lambda x: {"mask": x(BITS)},
    "where": lambda x: {"mask": WHERE | ~overt.keep(x(BITS))},
    "dense": lambda x: {"bias": x(draw(2, 1, 6, 7))},
    "dense over keys": lambda x: {"bias": x(draw(7))},
    "alibi": lambda x: {"bias": overt.alibi(x(np.array([0.1, 0.2, 0.4, 0.8])), x(np.array([1, 0])))},
    "relative": lambda x: {"bias": overt.relative(x(draw(8, 4)), max_distance=9)},
    "sum": lambda x: {"bias": overt.alibi(x(draw(4))) + x(draw(6, 7)) + overt.relative(x(draw(8, 4)))},
    "NumPy's slopes": lambda x: {"bias": overt.alibi(draw(4)) + x(draw(7))},
    "NumPy's bias": lambda x: {"bias": draw(6, 7)},
    "sinks": lambda x: {"sinks": x(draw(4))},
    "softcap": lambda x: {"softcap": 2.0},
    "dot": lambda x: {"score": overt.dot()},
    "cosine": lambda x: {"score": overt.cosine(2.0)},
    "bilinear": lambda x: {"score": overt.bilinear(x(draw(8, 8)))},
    "additive": lambda x: {
        "score": overt.additive(x(draw(3, 8)), x(draw(3, 8, seed=1)), x(draw(3)), x(draw(3, seed=1)))
    },
    "dropout": lambda x: {"dropout": overt.dropout(0.3, 1)},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_attention(name: str) -> None:
    options = OPTIONS[name]
    check(lambda x: overt.attention(x(Q), x(K), x(V), **options(x)))
    check(lambda x: [step.array for step in overt.trace(x(Q), x(K), x(V), **options(x))])

    def ask(x: Callable[[np.ndarray], Any]) -> list[Any]:
        seen = overt.attend(x(Q), x(K), x(V), **options(x))
        gradient = seen.gradient(x(draw(2, 4, 6, 5)))
        return [
            seen.output,
            seen.lse,
            seen.received(),
            seen.entropy(),
            seen.top(3),
            seen.map(3, 2),
            seen.map(4, 9, pool="mean"),
            seen.weights[0, 1:3, ::2],
            seen.weights[:, [0, 1], [2, 3], [1, 5]],
            np.asarray(seen.weights),
            tuple(gradient),
            gradient.sinks,
            gradient.score,
        ]

    check(ask)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtypes_come_back(dtype: Any) -> None:
    q, k, v = (strict.asarray(x.astype(dtype)) for x in (Q, K, V))
    seen = overt.attend(q, k, v, bias=overt.alibi(strict.asarray(np.ones(4, np.float32))))
    wanted = strict.float32 if dtype is np.float32 else strict.float64
    assert seen.output.dtype == seen.lse.dtype == seen.received().dtype == wanted
    assert all(x.dtype == wanted for x in seen.gradient(seen.output)[:3])


def test_other_axes() -> None:
    check(lambda x: overt.attend(x(Q[0, 0]), x(K[0, 0]), x(V[0, 0])).output)
    check(lambda x: overt.attend(x(Q[0]), x(K[0]), x(V[0])).gradient(x(draw(4, 6, 5)))[:3])
    check(lambda x: overt.attention(x(Q[None]), x(K[:1]), x(V), mask=overt.causal()))
    check(lambda x: overt.attend(x(Q), x(K[:1]), x(V[:1])).gradient(x(draw(2, 4, 6, 5)))[:3])


def test_merge() -> None:
    def merged(x: Callable[[np.ndarray], Any]) -> Any:
        parts = [overt.attend(x(Q), x(K[..., i::2, :]), x(V[..., i::2, :])) for i in range(2)]
        return overt.merge((part.output, part.lse) for part in parts)

    check(merged)


def test_cache() -> None:
    def decoded(x: Callable[[np.ndarray], Any]) -> list[Any]:
        cache = overt.Cache(bias=overt.alibi(x(draw(4))), sinks=x(draw(4)))
        for t in range(7):
            cache.append(x(K[..., t : t + 1, :]), x(V[..., t : t + 1, :]))
        found = [cache.attend(x(Q)).output]
        cache.keep(x(np.array([1, 2, 5])))
        found += [cache.keys, cache.attend(x(Q[..., :1, :])).received()]
        cache.reorder(x(np.array([1, 0, 1])))
        cache.crop(4)
        found += [cache.values]
        return found

    check(decoded)


def test_positions() -> None:
    for layout in ("half", "interleaved"):
        check(lambda x, layout=layout: overt.positions.rope(x(Q), 3, layout=layout, width=4))
        check(lambda x, layout=layout: overt.positions.rope(x(Q), x(np.arange(12).reshape(2, 6)), layout=layout))
    check(lambda x: overt.positions.learned(x(draw(9, 4)), 5))
    check(lambda x: overt.positions.learned(x(draw(9, 4)), x(np.array([[1, 3], [0, 8]]))))
    # What has no array to be like is NumPy's.
    sinusoidal = overt.positions.sinusoidal(strict.asarray([1, 5]), 6)
    np.testing.assert_array_equal(sinusoidal, overt.positions.sinusoidal(np.array([1, 5]), 6))


# Layers.


def mapped(x: Callable[[np.ndarray], Any], parameters: Any) -> Any:
    if isinstance(parameters, dict):
        return {name: mapped(x, part) for name, part in parameters.items()}
    return [mapped(x, part) for part in parameters] if isinstance(parameters, list) else x(parameters)


def attention_parameters(width: int = 8) -> dict[str, np.ndarray]:
    names = ("query", "key", "value", "output")
    return {f"{name}_weight": draw(width, width, seed=i) / 3 for i, name in enumerate(names)} | {
        f"{name}_bias": draw(width, seed=i) for i, name in enumerate(names)
    }


def norm(width: int = 8) -> dict[str, np.ndarray]:
    return {"scale": draw(width, seed=5), "offset": draw(width, seed=6)}


FEED_FORWARD = {"inner_weight": draw(9, 8), "inner_bias": draw(9), "outer_weight": draw(8, 9), "outer_bias": draw(8)}
ENCODER = {
    "attention": attention_parameters(),
    "attention_norm": norm(),
    "feed_forward": FEED_FORWARD,
    "feed_forward_norm": norm(),
}
DECODER = {**ENCODER, "cross": attention_parameters(), "cross_norm": norm()}
EMBEDDINGS = {"token_embedding": draw(11, 8), "position_embedding": draw(9, 8), "unembedding": draw(11, 8)}
GRU = {"input_weight": draw(12, 8), "input_bias": draw(12), "state_weight": draw(12, 4), "state_bias": draw(12)}
X, Z = draw(2, 5, 8), draw(2, 6, 8)
TOKENS, SOURCE, LENGTHS = np.array([[1, 5, 2], [4, 0, 3]]), np.array([[7, 5, 2, 9], [4, 0, 3, 3]]), np.array([4, 2])
LAYERS: dict[str, Call] = {
    "softmax": lambda x: layers.softmax(x(X)),
    "relu": lambda x: layers.relu(x(X)),
    "gelu": lambda x: layers.gelu(x(X)),
    "sigmoid": lambda x: layers.sigmoid(x(100 * X)),
    "layer_norm": lambda x: layers.layer_norm(x(X), x(draw(8)), x(draw(8, seed=1))),
    "linear": lambda x: layers.linear(x(X), x(draw(3, 8)), x(draw(3))),
    "embedding": lambda x: layers.embedding(x(draw(11, 8)), x(TOKENS)),
    "positional_embedding": lambda x: layers.positional_embedding(x(draw(9, 8)), 2, 4),
    "unembedding": lambda x: layers.unembedding(x(X), x(draw(11, 8))),
    "feed_forward": lambda x: layers.feed_forward(x(X), mapped(x, FEED_FORWARD), activation=layers.gelu),
    "single_query_attention": lambda x: layers.single_query_attention(
        x(X[0, 0]), x(Z[0]), mapped(x, attention_parameters())
    ),
    "attention_layer": lambda x: layers.attention_layer(x(X), x(Z), mapped(x, attention_parameters())),
    "multi_head_attention": lambda x: layers.multi_head_attention(
        x(X), x(Z), mapped(x, attention_parameters()), heads=2, mask=overt.causal()
    ),
    "mix_heads": lambda x: layers.mix_heads(
        x(X),
        *layers.keys_and_values(x(Z), mapped(x, attention_parameters()), heads=2),
        mapped(x, attention_parameters()),
        heads=2,
    ),
    "additive_attention": lambda x: layers.additive_attention(
        x(X),
        x(Z),
        x(Z),
        {"query_weight": x(draw(3, 8)), "key_weight": x(draw(3, 8, seed=1)), "score_weight": x(draw(3))},
    ),
    "mix_additive": lambda x: layers.mix_additive(
        x(X),
        layers.additive_keys(x(Z), {"key_weight": x(draw(3, 8, seed=1))}),
        x(Z),
        {"query_weight": x(draw(3, 8)), "score_weight": x(draw(3)), "bias": x(draw(3, seed=1))},
    ),
    "bilinear_attention": lambda x: layers.bilinear_attention(x(X), x(Z), x(Z), {"product_weight": x(draw(8, 8))}),
    "gru_cell": lambda x: layers.gru_cell(x(X), x(draw(2, 5, 4)), mapped(x, GRU)),
    "gru": lambda x: layers.gru(x(X), mapped(x, GRU), lengths=x(LENGTHS), state=x(draw(2, 4))),
    "bidirectional_gru": lambda x: layers.bidirectional_gru(
        x(X), mapped(x, {"forwards": GRU, "backwards": GRU}), lengths=x(LENGTHS)
    ),
    "encoder_layer": lambda x: layers.encoder_layer(
        x(X), mapped(x, ENCODER), heads=2, mask=overt.padding(x(np.array([5, 2])))
    ),
    "decoder_layer": lambda x: layers.decoder_layer(
        x(X), layers.keys_and_values(x(Z), mapped(x, attention_parameters()), heads=2), mapped(x, DECODER), heads=2
    ),
    "encoder_decoder_transformer": lambda x: layers.encoder_decoder_transformer(
        x(SOURCE),
        x(TOKENS),
        mapped(x, {**EMBEDDINGS, "encoder": [ENCODER], "decoder": [DECODER]}),
        heads=2,
        lengths=x(LENGTHS),
    ),
    "encoder_transformer": lambda x: layers.encoder_transformer(
        x(TOKENS),
        mapped(
            x,
            {
                **EMBEDDINGS,
                "layers": [ENCODER],
                "final_weight": draw(8, 8),
                "final_bias": draw(8),
                "final_norm": norm(),
            },
        ),
        heads=2,
    ),
    "decoder_transformer": lambda x: layers.decoder_transformer(
        x(TOKENS), mapped(x, {**EMBEDDINGS, "layers": [ENCODER], "final_norm": norm()}), heads=2
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    check(LAYERS[name])


def test_no_layer_is_forgotten() -> None:
    # Types, what only names or lists things, and what is asked for beside another are no functions of arrays.
    beside = {"additive_keys", "keys_and_values", "keep", "nested", "watched", "generate"}
    functions = {name for name in layers.__all__ if name[0].islower()}
    assert functions - beside == set(LAYERS)
