#!/usr/bin/env python3
"""Cascade (shared-prefix) attention, reference implementation for our kernel tests.

Requests which share a system prompt attend to the prompt's KV once, as one batch, and
to their own suffix separately; the two partial states (o, lse) are merged exactly:

    o = sum_i exp(lse_i) o_i / sum_i exp(lse_i)

Like in the CUDA kernel, the exponentials of the partial attention are exp2 with log2(e)
folded into the scale, since ex2.approx is the only fast one on the device.
"""
from typing import List, Sequence, Tuple

import numpy as np

LOG2E = 1.4426950408889634

State = Tuple[np.ndarray, np.ndarray]


def partial_attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> State:
    """q [n, H, D], k and v [m, H, D] -> o [n, H, D], lse [n, H]"""
    n, H, D = q.shape
    if k.shape[0] == 0:
        return np.zeros((n, H, v.shape[-1])), np.full((n, H), -np.inf)
    s = np.einsum("nhd,mhd->nhm", q, k) * (LOG2E / np.sqrt(D))
    m = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - m)
    l = p.sum(axis=-1, keepdims=True)
    o = np.einsum("nhm,mhd->nhd", p / l, v)
    lse = (m + np.log2(l))[..., 0]
    return o, lse


def merge_states(states: Sequence[State]) -> State:
    """Merge partial states over disjoint sets of keys."""
    lses = np.stack([s[1] for s in states])
    outs = np.stack([s[0] for s in states])
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    total = w.sum(axis=0)
    o = (outs * (w / total)[..., None]).sum(axis=0)
    return o, top + np.log(total)


def cascade_attention(
    q: np.ndarray,
    prefix_k: np.ndarray,
    prefix_v: np.ndarray,
    suffix_k: List[np.ndarray],
    suffix_v: List[np.ndarray],
) -> np.ndarray:
    """One decoding step of a batch.

    q [R, H, D], one query per request; prefix_* [P, H, D]; suffix_*[r] [m_r, H, D]
    Equal to softmax attention of request r over concat(prefix, suffix[r]).
    """
    shared = partial_attention(q, prefix_k, prefix_v)
    out = np.empty_like(shared[0])
    for r in range(q.shape[0]):
        own = partial_attention(q[r : r + 1], suffix_k[r], suffix_v[r])
        common = (shared[0][r : r + 1], shared[1][r : r + 1])
        out[r] = merge_states([common, own])[0][0]
    return out


if __name__ == "__main__":
    g = np.random.default_rng(0)
    f = lambda *s: g.standard_normal(s)
    sk = [f(3, 2, 8), f(5, 2, 8)]
    sv = [f(3, 2, 8), f(5, 2, 8)]
    print(cascade_attention(f(2, 2, 8), f(16, 2, 8), f(16, 2, 8), sk, sv).shape)
