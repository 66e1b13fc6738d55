"""
Homework 3, question 2: scaled dot-product attention, forward and backward.

Shapes: q (N, Lq, d), k (N, Lk, d), v (N, Lk, e).
mask (Lq, Lk) or (N, Lq, Lk): 1 = attend, 0 = do not attend.  Each row of the mask
has at least one 1 (we assert this).
"""
import numpy as np


def row_softmax(z):
    z = z - np.max(z, axis=-1, keepdims=True)
    p = np.exp(z)
    return p / np.sum(p, axis=-1, keepdims=True)


def attention_forward(q, k, v, mask=None):
    """Returns (out, cache)."""
    d = q.shape[-1]
    scores = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(d)
    if mask is not None:
        keep = np.broadcast_to(np.asarray(mask).astype(bool), scores.shape)
        assert keep.any(-1).all()
        scores = np.where(keep, scores, -np.inf)
    p = row_softmax(scores)
    out = np.matmul(p, v)
    return out, (q, k, v, p)


def attention_backward(dout, cache):
    """dout (N, Lq, e) -> dq, dk, dv"""
    q, k, v, p = cache
    d = q.shape[-1]
    dv = np.matmul(np.swapaxes(p, 1, 2), dout)
    dp = np.matmul(dout, np.swapaxes(v, 1, 2))
    # Jacobian of softmax: p * (g - sum(p * g))
    ds = p * (dp - np.sum(p * dp, axis=-1, keepdims=True))
    dq = np.matmul(ds, k) / np.sqrt(d)
    dk = np.matmul(np.swapaxes(ds, 1, 2), q) / np.sqrt(d)
    return dq, dk, dv


def numeric_grad(f, x, df, h=1e-5):
    grad = np.zeros_like(x)
    it = np.nditer(x, flags=["multi_index"])
    while not it.finished:
        ix = it.multi_index
        old = x[ix]
        x[ix] = old + h
        pos = f()
        x[ix] = old - h
        neg = f()
        x[ix] = old
        grad[ix] = np.sum((pos - neg) * df) / (2 * h)
        it.iternext()
    return grad


def check():
    rng = np.random.RandomState(231)
    q, k, v = rng.randn(2, 3, 4), rng.randn(2, 5, 4), rng.randn(2, 5, 6)
    mask = np.tri(3, 5, 2)
    out, cache = attention_forward(q, k, v, mask)
    dout = rng.randn(*out.shape)
    for name, x, g in zip("qkv", (q, k, v), attention_backward(dout, cache)):
        num = numeric_grad(lambda: attention_forward(q, k, v, mask)[0], x, dout)
        print(name, np.abs(num - g).max())


if __name__ == "__main__":
    check()
