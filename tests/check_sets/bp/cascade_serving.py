"""Cascade attention for a shared system prompt (host reference for the GPU path).

The prompt part of the KV cache is identical for all requests of a group; it is
attended to once, the private part per request, and both partial results are merged.
The kernels work with exp2, hence the log2(e) that is folded into the scale.
"""
import numpy as np

LOG2E = 1.4426950408889634


class Shared:
    """Keys/values of the system prompt: k, v [P, Hkv, D]."""

    def __init__(self, k, v):
        assert k.shape == v.shape
        self.k, self.v = k, v

    @property
    def length(self):
        return self.k.shape[0]


def partial_attention(q, k, v, scale):
    """q [H, D], k/v [N, Hkv, D] -> normalised output [H, D] and its lse [H]."""
    H, D = q.shape
    rep = H // k.shape[1]
    k = np.repeat(k, rep, axis=1)
    v = np.repeat(v, rep, axis=1)
    s = np.einsum("hd,nhd->hn", q, k) * (scale * LOG2E)
    m = s.max(axis=-1)
    p = np.exp2(s - m[:, None])
    z = p.sum(axis=-1)
    o = np.einsum("hn,nhd->hd", p, v) / z[:, None]
    return o, m + np.log2(z)


def merge_state(o_a, lse_a, o_b, lse_b):
    """Combine two partial results over disjoint key sets."""
    top = np.maximum(lse_a, lse_b)
    w_a = np.exp(lse_a - top)
    w_b = np.exp(lse_b - top)
    z = w_a + w_b
    return (o_a * w_a[:, None] + o_b * w_b[:, None]) / z[:, None]


def cascade_decode(q, shared: Shared, private_k, private_v, scale=None):
    """Decode step for a group of requests.

    q          [B, H, D]
    private_k  list of B arrays [n_b, Hkv, D]; n_b may be 0
    Equals softmax(q k^T * scale) v over the prompt followed by the private tokens.
    """
    B, H, D = q.shape
    scale = D ** -0.5 if scale is None else scale
    out = np.empty_like(q)
    for b in range(B):
        o_s, lse_s = partial_attention(q[b], shared.k, shared.v, scale)
        if len(private_k[b]) == 0:
            out[b] = o_s
            continue
        o_p, lse_p = partial_attention(q[b], private_k[b], private_v[b], scale)
        out[b] = merge_state(o_s, lse_s, o_p, lse_p)
    return out


def bytes_saved(shared: Shared, n_requests, itemsize=2):
    per_copy = 2 * shared.length * shared.k.shape[1] * shared.k.shape[2] * itemsize
    return (n_requests - 1) * per_copy


if __name__ == "__main__":
    rng = np.random.default_rng(7)
    sh = Shared(rng.normal(size=(11, 2, 8)), rng.normal(size=(11, 2, 8)))
    ks = [rng.normal(size=(n, 2, 8)) for n in (3, 0)]
    vs = [rng.normal(size=(n, 2, 8)) for n in (3, 0)]
    print(cascade_decode(rng.normal(size=(2, 4, 8)), sh, ks, vs).shape, bytes_saved(sh, 2))
