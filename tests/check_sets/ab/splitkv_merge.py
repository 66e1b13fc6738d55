"""Reference for the split-KV decode kernel: every worker handles a slice of the
cache, a second pass merges the slices. Used to debug the CUDA code on a laptop."""
import numpy as np

LOG2E = 1.4426950408889634


class KVCache:
    def __init__(self, max_len, heads, dim):
        self.k = np.zeros((max_len, heads, dim), np.float32)
        self.v = np.zeros((max_len, heads, dim), np.float32)
        self.len = 0

    def append(self, k, v):
        n = k.shape[0]
        self.k[self.len:self.len + n] = k
        self.v[self.len:self.len + n] = v
        self.len += n


def attend_slice(q, k, v, sm_scale):
    """one worker.  q [H, D], k/v [n, H, D] -> normalised out [H, D], lse [H]

    The kernel works with exp2 because that is one instruction on the GPU, so the
    logits are premultiplied with log2(e).
    """
    s = np.einsum("hd,nhd->hn", q, k).astype(np.float64) * (sm_scale * LOG2E)
    m = s.max(axis=-1)
    p = np.exp2(s - m[:, None])
    l = p.sum(axis=-1)
    out = np.einsum("hn,nhd->hd", p, v) / l[:, None]
    return out, m + np.log2(l)


def merge(outs, lses):
    """outs [S, H, D], lses [S, H] -> the attention over the union of the slices"""
    outs, lses = np.asarray(outs), np.asarray(lses)
    top = lses.max(axis=0)
    w = np.exp(lses - top)
    w = w / w.sum(axis=0)
    return (w[..., None] * outs).sum(axis=0), top


def plan(total, workers):
    step = -(-total // workers)
    return [(a, min(a + step, total)) for a in range(0, total, step)]


def decode_attention(q, cache, workers=4, sm_scale=None):
    """q [H, D]: the query of the newest token, attends to everything in the cache"""
    if sm_scale is None:
        sm_scale = q.shape[-1] ** -0.5
    outs, lses = [], []
    for a, b in plan(cache.len, workers):
        o, l = attend_slice(q, cache.k[a:b], cache.v[a:b], sm_scale)
        outs.append(o)
        lses.append(l)
    if len(outs) == 1:
        return outs[0]
    return merge(outs, lses)[0]


def main():
    rng = np.random.default_rng(0)
    cache = KVCache(64, 4, 8)
    cache.append(rng.normal(size=(37, 4, 8)), rng.normal(size=(37, 4, 8)))
    print(decode_attention(rng.normal(size=(4, 8)), cache))


if __name__ == "__main__":
    main()
