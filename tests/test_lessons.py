"""Six lessons that tutorials teach, some of them wrongly: the numbers that are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import overt

LESSONS = json.loads((Path(__file__).parent / "lessons.json").read_text())


def lesson(name: str) -> dict[str, Any]:
    return {key: np.array(value) if isinstance(value, list) else value for key, value in LESSONS[name].items()}


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-7)


def check(q: Any, k: Any, v: Any, expected: dict[str, Any], **options: Any) -> None:
    """The steps of trace, and the open result, which is computed another way."""
    steps, seen = overt.trace(q, k, v, **options), overt.attend(q, k, v, **options)
    for name, array in expected.items():
        close(steps[name], array)
    close(seen.weights[...], steps["weights"])
    close(seen.output, steps["output"])
    close(seen.lse, steps["lse"])
    close(overt.attention(q, k, v, **options), steps["output"])


def test_single_query() -> None:
    d = lesson("single_query")
    current, context = np.ones((1, 10)), np.outer([2.0, 3.0, 4.0], np.ones(10))
    weight = np.outer(np.arange(1.0, 11.0), np.ones(10))
    q, k, v = current @ weight.T, context @ weight.T, context @ weight.T + d["value_bias"]
    close(q[0], d["query"])
    close(k, d["keys"])
    close(v, d["values"])
    # The exponentials of these scores overflow; divided by their sum, as the tutorial has it, they are 2/9, 3/9, 4/9.
    check(q, k, v, {"scaled": d["scaled_scores"][None], "weights": [[0, 0, 1]], "output": d["output"][None]})
    assert d["weights"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("role", ["encoder", "decoder"])
def test_self_attention(role: str) -> None:
    d = lesson("self_attention")
    q, k, v = d["query"], d["key"], d["value"]
    names = {"dot": "scores", "scaled": "scaled", "query": "query", "key": "key"}
    options = {} if role == "encoder" else {"mask": overt.causal()}
    expected = {"weights": d[f"{role}_weights"], "output": d[f"{role}_context"]}
    check(q, k, v, {"scores": d["dot"], "scaled": d["scaled"], **expected}, **options)
    steps = overt.trace(q, k, v, **options)
    for name, variance in d["variance"].items():
        close(steps.step(names[name]).variance, variance)


def test_self_attention_of_a_batch() -> None:
    # k.T on batched input, one of the mistakes, swaps the wrong axes.
    d = lesson("self_attention")
    q, k, v = (np.stack([d[name][None], d[name][None, ::-1]]) for name in ("query", "key", "value"))
    y = overt.attention(q, k, v)
    close(y[0, 0], d["encoder_context"])
    close(y[1, 0, ::-1], d["encoder_context"])


def test_word_similarity() -> None:
    d = lesson("word_similarity")
    vectors = d["vectors"]
    for scale in (1.0, 3.0):
        steps = overt.trace(vectors, vectors, vectors, score=overt.cosine(scale))
        close(steps["scores"], d["cosine"])
    bat, cave, racket = range(3)
    for words, name in (([bat, cave], "bat_cave"), ([bat, racket], "bat_racket")):
        x = vectors[words]
        check(x, x, x, {"scores": d["cosine"][np.ix_(words, words)]}, score=overt.cosine())
        seen = overt.attend(x, x, x, score=overt.cosine())
        close(seen.weights[:1], d[f"{name}_weights"])
        close(seen.output, d[f"{name}_context"])


def test_additive() -> None:
    d, random = lesson("additive"), np.random.RandomState(42)
    encoder, decoder, layer_1, layer_2 = (random.randn(*shape) for shape in ((5, 16), (1, 16), (32, 10), (10, 1)))
    score = overt.additive(layer_1[16:].T, layer_1[:16].T, layer_2[:, 0])
    expected = {"scores": d["scores"].T, "weights": d["weights"].T, "output": d["context"][None]}
    check(decoder, encoder, encoder, expected, score=score)


def test_softmax_examples() -> None:
    # Scores of one's own choice are a bias over queries and keys of no width.
    d = lesson("additive")

    def softmax(scores: np.ndarray) -> np.ndarray:
        T, S = scores.shape
        return overt.attend(np.empty((T, 0)), np.empty((S, 0)), np.empty((S, 0)), bias=scores).weights[...]

    close(softmax(d["softmax_axis0_of"].astype(float).T).T, d["softmax_axis0_gives"])
    close(softmax(d["vector"][None])[0], d["vector_gives"])


def test_dot_product() -> None:
    d = lesson("dot_product")
    q, k, v = d["query"], d["key"], d["value"]
    expected = {"weights": d["weights"], "output": d["context"]}
    check(q, k, v, {"scaled": d["scaled"], **expected}, bias=d["additive_mask"])
    # The same meaning as a boolean mask, where True keeps: a mask read as the tutorial reads it is the inverse.
    check(q, k, v, expected, mask=d["additive_mask"] == 0)
    check(q, k, v, expected, mask=overt.causal())
    check(q, k, v, {"weights": d["unmasked_weights"], "output": d["unmasked_context"]})


def test_encoder_decoder() -> None:
    d, random = lesson("encoder_decoder"), np.random.RandomState(0)
    q, k, v = (random.rand(3, n, 18) for n in (10, 9, 9))
    check(q, k, v, {})
    seen = overt.attend(q, k, v)
    # One context per query, J × K, and not one per key.
    assert list(seen.weights.shape) == d["weights_shape"].tolist()
    assert list(seen.output.shape) == d["context_shape"].tolist()
    close(seen.weights[0, 0], d["weights_first_row"])
    close(seen.output[0, 0], d["context_first_row"])
