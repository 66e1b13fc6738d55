"""run.c, but NumPy.  One token at a time, like the original.

I ported only forward() of the transformer (the attention part and rmsnorm).
Names of the C code are kept so one can read them side by side:
  s.q  s.k  s.v  s.att  s.xb  s.key_cache  s.value_cache
Weights are row major: matmul(W, x) with W of shape (out, in).
RoPE here rotates neighbours (2i, 2i+1), as the exported weights expect.
"""
import numpy as np
from types import SimpleNamespace as NS


def rmsnorm(x, weight):
    ss = np.dot(x, x) / x.size + 1e-5
    return weight * (x / np.sqrt(ss))


def softmax(x):
    x = x - x.max()
    np.exp(x, out=x)
    x /= x.sum()
    return x


def make_config(dim=32, n_heads=4, n_kv_heads=2, n_layers=2, seq_len=64):
    return NS(dim=dim, n_heads=n_heads, n_kv_heads=n_kv_heads,
              n_layers=n_layers, seq_len=seq_len)


def random_weights(p, seed=0):
    r = np.random.default_rng(seed)
    kv_dim = p.dim * p.n_kv_heads // p.n_heads
    g = lambda *s: r.normal(size=s) / np.sqrt(s[-1])
    return NS(rms_att=1 + 0.1 * g(p.n_layers, p.dim),
              wq=g(p.n_layers, p.dim, p.dim), wk=g(p.n_layers, kv_dim, p.dim),
              wv=g(p.n_layers, kv_dim, p.dim), wo=g(p.n_layers, p.dim, p.dim))


class RunState:
    def __init__(self, p):
        kv_dim = p.dim * p.n_kv_heads // p.n_heads
        self.att = np.zeros((p.n_heads, p.seq_len))
        self.xb = np.zeros(p.dim)
        self.key_cache = np.zeros((p.n_layers, p.seq_len, kv_dim))
        self.value_cache = np.zeros((p.n_layers, p.seq_len, kv_dim))


def rope(vec, pos, head_size):
    for i in range(0, vec.size, 2):
        head_dim = i % head_size
        freq = 1.0 / (10000.0 ** (head_dim / head_size))
        fcr, fci = np.cos(pos * freq), np.sin(pos * freq)
        v0, v1 = vec[i], vec[i + 1]
        vec[i] = v0 * fcr - v1 * fci
        vec[i + 1] = v0 * fci + v1 * fcr


def attention(x, pos, p, w, s):
    """x: (dim,) activation of the token at `pos` (0, 1, 2, ... in order).

    Runs all attention sublayers with residuals and returns the new (dim,) x.
    """
    x = x.copy()
    head_size = p.dim // p.n_heads
    kv_mul = p.n_heads // p.n_kv_heads   # query heads per kv head
    for l in range(p.n_layers):
        xb = rmsnorm(x, w.rms_att[l])
        q = w.wq[l] @ xb
        k = w.wk[l] @ xb
        v = w.wv[l] @ xb
        rope(q, pos, head_size)
        rope(k, pos, head_size)
        s.key_cache[l, pos] = k
        s.value_cache[l, pos] = v
        for h in range(p.n_heads):
            qh = q[h * head_size:(h + 1) * head_size]
            off = (h // kv_mul) * head_size
            for t in range(pos + 1):
                kt = s.key_cache[l, t, off:off + head_size]
                s.att[h, t] = np.dot(qh, kt) / np.sqrt(head_size)
            a = softmax(s.att[h, :pos + 1])
            xbh = np.zeros(head_size)
            for t in range(pos + 1):
                xbh += a[t] * s.value_cache[l, t, off:off + head_size]
            s.xb[h * head_size:(h + 1) * head_size] = xbh
        x += w.wo[l] @ s.xb
    return x


if __name__ == "__main__":
    p = make_config()
    w, s = random_weights(p), RunState(p)
    for pos in range(5):
        print(attention(np.ones(p.dim) * pos, pos, p, w, s)[:3])
