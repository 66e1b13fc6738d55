"""The examples that tutorials on attention use, by name: what ``overt show`` runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from overt.attention import attend, trace
from overt.masks import causal
from overt.scores import additive, cosine
from overt.views.labels import Labelled
from overt.views.view import View


def my_name_is_john() -> View:
    """Scaled dot-product self-attention over “My name is John”, T = S = 4, D = E = 8, causal."""
    query = [
        [1.34972467, 1.35332753, -0.77556227, 1.91676259, -1.61592118, 0.59815915, -0.18490108, 1.15882701],
        [-0.33608825, -1.19344485, -0.97662111, 1.20519669, 0.2540626, 0.45435371, -2.21570849, -0.55022568],
        [1.33711846, 0.01455579, -0.61734755, 0.34603767, -1.30180037, 0.92430392, -0.80426423, -0.1787877],
        [-0.44801764, 0.64280112, 0.40218577, -0.28686598, 0.38526026, 0.6576787, -0.08885837, -0.07665715],
    ]
    key = [
        [-0.96890619, 0.96396798, -0.73914589, 0.12728142, -0.134454, 0.2575052, -0.25883817, -0.97963846],
        [1.42722162, 0.36437203, -0.33366425, -1.58075897, -0.18005312, 0.81230955, 2.22149487, -0.94734918],
        [0.19142128, -1.33368536, -1.07531501, -0.2893011, 0.30201615, 0.06685315, -0.07141276, -1.27233625],
        [0.41115131, -1.01680208, 1.93874384, -1.34373299, -0.60134847, 0.26848415, 0.01355881, -1.11879544],
    ]
    value = [
        [-0.82589176, -0.8639556, 0.75185056, 1.36580367, -0.80202648, 0.53314709, 0.60224679, -0.13482091],
        [-1.21390252, 0.20359992, 0.26225157, 0.03961611, -0.15492762, 0.64232898, -1.17509491, -1.49053203],
        [-0.58725654, 0.42888178, -1.03420484, 0.65297388, -0.45357274, 1.74744249, -1.14826684, 0.23966213],
        [0.46585498, 0.09688181, 0.20670099, -1.17548068, 0.9505946, -1.85844719, 0.89936342, -1.7963295],
    ]
    steps = trace(np.array(query), np.array(key), np.array(value), mask=causal())
    return View(steps, tokens=["My", "name", "is", "John"], title="My name is John")


def bat() -> View:
    """What “bat” means beside “cave” and beside “racket”: cosine scores of word vectors, then a weighted sum."""
    words = ["bat", "cave", "racket"]
    x = np.array([[3.0, 3.0], [4.0, 0.0], [0.0, 5.0]])
    # The same word twice, in two sentences that do not see each other's words.
    sentences = np.array([[True, True, False], [True, False, True]])
    seen = attend(x[[0, 0]], x, x, score=cosine(), mask=sentences)
    queries = ["bat (cave)", "bat (racket)"]
    return View([Labelled(seen, words, queries)], title="bat, cave, racket")


def single_query() -> View:
    """One query over three keys whose scores overflow an exponential that does not subtract their maximum.

    Phuong & Hutter 2022 (arXiv:2207.09238), algorithm 3.
    """
    weight = np.outer(np.arange(1.0, 11.0), np.ones(10))
    current, context = np.ones((1, 10)), np.outer([2.0, 3.0, 4.0], np.ones(10))
    steps = trace(current @ weight.T, context @ weight.T, context @ weight.T + np.arange(10.0))
    return View(steps, tokens=["twos", "threes", "fours"], queries=["ones"], title="single query")


def bahdanau() -> View:
    """Additive attention of one decoder state to five encoder states.  Bahdanau et al. 2015 (arXiv:1409.0473)."""
    random = np.random.RandomState(42)
    encoder, decoder, layer_1, layer_2 = (random.randn(*shape) for shape in ((5, 16), (1, 16), (32, 10), (10, 1)))
    score = additive(layer_1[16:].T, layer_1[:16].T, layer_2[:, 0])
    steps = trace(decoder, encoder, encoder, score=score)
    return View(steps, tokens=[f"state {i}" for i in range(5)], queries=["decoder"], title="additive attention")


def mask_of_zeros() -> View:
    """Two queries and two keys with an additive mask, −10⁹ where a query may not look: a bias, not a boolean mask."""
    q, k = np.eye(2, 3), np.arange(1.0, 7).reshape(2, 3)
    v = np.array([[0.0, 1, 0], [1, 0, 1]])
    return View(trace(q, k, v, bias=np.array([[0, -1e9], [0, 0]])), title="dot product with an additive mask")


def encoder_decoder() -> View:
    """Ten decoder steps over nine encoder states, a batch of three: one row of weights and one context per step."""
    random = np.random.RandomState(0)
    q, k, v = (random.rand(3, 1, n, 18) for n in (10, 9, 9))
    part = Labelled(attend(q, k, v), [f"h{i}" for i in range(9)], [f"s{j}" for j in range(10)], name="cross")
    return View(part, title="encoder and decoder")


LESSONS: dict[str, Callable[[], View]] = {
    "my-name-is-john": my_name_is_john,
    "bat": bat,
    "single-query": single_query,
    "additive": bahdanau,
    "dot-product": mask_of_zeros,
    "encoder-decoder": encoder_decoder,
}
