"""Forward pass of the limit-order-book model in plain numpy, for the co-located box
(no torch there). Weights come from `np.load("lob_v7.npz")`, names as exported:

    emb.w [F, D]  emb.b [D]  pos [T, D]
    L{i}.ln1.g/b  L{i}.qkv.w [D, 3D] (q | k | v, heads contiguous inside)  L{i}.qkv.b
    L{i}.o.w [D, D]  L{i}.o.b  L{i}.ln2.g/b  L{i}.up.w/b  L{i}.down.w/b
    head.w [D, 3]  head.b       down / flat / up
"""
import numpy as np

N_HEADS = 4


def layer_norm(x, g, b, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    s = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / np.sqrt(s + eps) * g + b


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def lookback_mask(T, valid=None):
    """True where snapshot i may read snapshot j: j <= i and j not a gap in the feed.
    A snapshot always reads itself, gap or not."""
    m = np.tri(T, dtype=bool)
    if valid is None:
        return m[None]
    return (m[None] & np.asarray(valid, bool)[:, None, :]) | np.eye(T, dtype=bool)[None]


def attend(x, w, p, mask, n_heads=N_HEADS):
    """x [B, T, D], mask bool [B or 1, T, T] -> [B, T, D]"""
    B, T, D = x.shape
    d = D // n_heads
    qkv = x @ w[p + ".qkv.w"] + w[p + ".qkv.b"]
    q, k, v = (a.reshape(B, T, n_heads, d).swapaxes(1, 2) for a in np.split(qkv, 3, axis=-1))
    s = np.einsum("bhid,bhjd->bhij", q, k, optimize=True) / np.sqrt(d)
    s = np.where(mask[:, None], s, -np.inf)
    s -= s.max(axis=-1, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=-1, keepdims=True)
    y = (s @ v).swapaxes(1, 2).reshape(B, T, D)
    return y @ w[p + ".o.w"] + w[p + ".o.b"]


def block(x, w, i, mask):
    p = f"L{i}"
    x = x + attend(layer_norm(x, w[p + ".ln1.g"], w[p + ".ln1.b"]), w, p, mask)
    h = layer_norm(x, w[p + ".ln2.g"], w[p + ".ln2.b"])
    return x + gelu(h @ w[p + ".up.w"] + w[p + ".up.b"]) @ w[p + ".down.w"] + w[p + ".down.b"]


def n_layers(w):
    return len({k.split(".")[0] for k in w if k.startswith("L")})


def predict(w, book, valid=None):
    """book [B, T, F] normalised levels -> probabilities [B, 3] for the last snapshot"""
    T = book.shape[1]
    x = book @ w["emb.w"] + w["emb.b"] + w["pos"][:T]
    mask = lookback_mask(T, valid)
    for i in range(n_layers(w)):
        x = block(x, w, i, mask)
    z = x[:, -1] @ w["head.w"] + w["head.b"]
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def random_weights(F=40, D=32, T=100, L=2, seed=0):
    r = np.random.default_rng(seed)
    n = lambda *s: r.normal(0, 0.1, s)
    w = {"emb.w": n(F, D), "emb.b": n(D), "pos": n(T, D), "head.w": n(D, 3), "head.b": n(3)}
    for i in range(L):
        p = f"L{i}"
        w.update({p + ".ln1.g": 1 + n(D), p + ".ln1.b": n(D), p + ".ln2.g": 1 + n(D), p + ".ln2.b": n(D),
                  p + ".qkv.w": n(D, 3 * D), p + ".qkv.b": n(3 * D), p + ".o.w": n(D, D), p + ".o.b": n(D),
                  p + ".up.w": n(D, 4 * D), p + ".up.b": n(4 * D), p + ".down.w": n(4 * D, D), p + ".down.b": n(D)})
    return w


if __name__ == "__main__":
    w = random_weights()
    print(predict(w, np.random.default_rng(1).normal(size=(5, 50, 40))))
