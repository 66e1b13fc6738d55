import numpy as np


class Cfg:
    dim, n_layers, n_heads, n_kv = 64, 2, 8, 2
    theta, eps = 10000.0, 1e-5


def rmsnorm(x, w, eps):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def silu(x):
    return x / (1 + np.exp(-x))


def rope_cis(pos, hd, theta):
    f = theta ** (-np.arange(0, hd, 2) / hd)
    return np.exp(1j * np.outer(pos, f))


def apply_rope(x, cis):
    # x: L, heads, hd -- consecutive pairs make the complex numbers
    z = x[..., 0::2] + 1j * x[..., 1::2]
    z = z * cis[:, None, :]
    y = np.empty_like(x)
    y[..., 0::2], y[..., 1::2] = z.real, z.imag
    return y


class Cache:
    def __init__(self, cfg, max_len):
        hd = cfg.dim // cfg.n_heads
        self.k = np.zeros((cfg.n_layers, max_len, cfg.n_kv, hd))
        self.v = np.zeros_like(self.k)


def attend(x, w, layer, pos, cache, cfg=Cfg):
    """x: (L, dim) new tokens which start at position `pos`"""
    L = x.shape[0]
    hd = cfg.dim // cfg.n_heads
    q = (x @ w["wq"].T).reshape(L, cfg.n_heads, hd)
    k = (x @ w["wk"].T).reshape(L, cfg.n_kv, hd)
    v = (x @ w["wv"].T).reshape(L, cfg.n_kv, hd)
    cis = rope_cis(np.arange(pos, pos + L), hd, cfg.theta)
    q, k = apply_rope(q, cis), apply_rope(k, cis)

    cache.k[layer, pos:pos + L] = k
    cache.v[layer, pos:pos + L] = v
    ks, vs = cache.k[layer, :pos + L], cache.v[layer, :pos + L]

    g = cfg.n_heads // cfg.n_kv
    qg = q.reshape(L, cfg.n_kv, g, hd)
    s = np.einsum("lngd,tnd->nglt", qg, ks) / np.sqrt(hd)
    if L > 1:
        t = np.arange(pos + L)
        s[..., t[None, :] > (pos + np.arange(L))[:, None]] = -np.inf
    s -= s.max(-1, keepdims=True)
    p = np.exp(s)
    p /= p.sum(-1, keepdims=True)
    o = np.einsum("nglt,tnd->lngd", p, vs).reshape(L, cfg.n_heads * hd)
    return o @ w["wo"].T


def forward(tokens, weights, pos, cache, cfg=Cfg):
    h = weights["embed"][tokens]
    for i, w in enumerate(weights["layers"]):
        h = h + attend(rmsnorm(h, w["an"], cfg.eps), w, i, pos, cache, cfg)
        y = rmsnorm(h, w["fn"], cfg.eps)
        h = h + (silu(y @ w["w1"].T) * (y @ w["w3"].T)) @ w["w2"].T
    return rmsnorm(h, weights["norm"], cfg.eps)[-1] @ weights["embed"].T


def random_weights(cfg=Cfg, vocab=50, seed=0):
    r = np.random.default_rng(seed)
    hd = cfg.dim // cfg.n_heads
    m = lambda o, i: r.normal(0, i ** -0.5, (o, i))
    lay = lambda: dict(wq=m(cfg.dim, cfg.dim), wk=m(cfg.n_kv * hd, cfg.dim), wv=m(cfg.n_kv * hd, cfg.dim),
                       wo=m(cfg.dim, cfg.dim), w1=m(96, cfg.dim), w3=m(96, cfg.dim), w2=m(cfg.dim, 96),
                       an=np.ones(cfg.dim), fn=np.ones(cfg.dim))
    return dict(embed=m(vocab, cfg.dim), norm=np.ones(cfg.dim), layers=[lay() for _ in range(cfg.n_layers)])


def generate(prompt, weights, steps, cfg=Cfg):
    cache = Cache(cfg, len(prompt) + steps)
    toks, pos, feed = list(prompt), 0, np.array(prompt)
    for _ in range(steps):
        logits = forward(feed, weights, pos, cache, cfg)
        pos += len(feed)
        feed = np.array([int(logits.argmax())])
        toks.append(int(feed[0]))
    return toks
