"""Split-KV decoding in NumPy: model of what the serving kernel does.

The cached keys are cut into pieces, every worker attends to its piece on its own and
hands back its normalised output together with the log-sum-exp of its scores.  The
results are merged so that the outcome equals attention over the whole cache.
The workers compute with exp2/log2 like the GPU kernel (log2(e) goes into the scale).
"""
import numpy as np

LOG2E = 1.4426950408889634


def worker(q, k, v):
    """One query per head against one piece of the cache.

    q [H, d], k [H, n, d], v [H, n, d]  ->  out [H, d], lse [H]
    """
    scale = LOG2E / np.sqrt(q.shape[-1])
    s = np.einsum("hd,hnd->hn", q, k) * scale
    top = s.max(axis=-1, keepdims=True)
    p = np.exp2(s - top)
    total = p.sum(axis=-1)
    out = np.einsum("hn,hnd->hd", p, v) / total[:, None]
    lse = top[:, 0] + np.log2(total)
    return out, lse


def merge(outs, lses):
    """outs [P, H, d], lses [P, H] -> [H, d]"""
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return np.einsum("ph,phd->hd", w, outs)


def decode_attention(q, k_cache, v_cache, pieces=4):
    """Softmax attention of one new token, scores scaled with 1/sqrt(d).

    q [H, d]; k_cache, v_cache [H, S, d]; returns [H, d].
    """
    S = k_cache.shape[1]
    if v_cache.shape[1] != S:
        raise ValueError("cache lengths differ")
    bounds = np.linspace(0, S, min(pieces, S) + 1).astype(int)
    outs, lses = [], []
    for a, b in zip(bounds[:-1], bounds[1:]):
        o, z = worker(q, k_cache[:, a:b], v_cache[:, a:b])
        outs.append(o)
        lses.append(z)
    return merge(np.stack(outs), np.stack(lses))


if __name__ == "__main__":
    r = np.random.default_rng(0)
    q = r.normal(size=(4, 16))
    k, v = r.normal(size=(2, 4, 37, 16))
    for n in (1, 2, 5):
        print(n, decode_attention(q, k, v, pieces=n)[0, :4])
