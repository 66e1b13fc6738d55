"""Set Transformer building blocks (Lee et al., 2019) as pure NumPy functions.

MAB, ISAB and PMA, for cluster counting of star fields. Weights are dicts of
arrays. Two deviations from the authors' repository, on purpose:
 * logits are scaled with the size of a head (the repo uses that of all heads);
 * sets are padded, `present` (n_sets, n_points) says which points exist.
"""
import numpy as np

rng = np.random.default_rng(0)


def dense(x, p):
    return x @ p["W"] + p["b"]


def norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def multihead(p, Q, K, present=None, heads=2):
    """Q (B,N,dq), K (B,M,dk) -> (B,N,d). The residual is the projected query, per head."""
    q, k, v = dense(Q, p["q"]), dense(K, p["k"]), dense(K, p["v"])
    d = q.shape[-1] // heads
    # heads in front of the batch: (heads*B, n, d)
    fold = lambda t: np.concatenate(np.split(t, heads, axis=-1), axis=0)
    qh, kh, vh = fold(q), fold(k), fold(v)
    logits = qh @ kh.transpose(0, 2, 1) / np.sqrt(d)
    if present is not None:
        keep = np.tile(present.astype(bool), (heads, 1))[:, None, :]
        logits = np.where(keep, logits, -1e30)
    logits = logits - logits.max(axis=2, keepdims=True)
    A = np.exp(logits)
    A = A / A.sum(axis=2, keepdims=True)
    O = qh + A @ vh
    return np.concatenate(np.split(O, heads, axis=0), axis=-1)


def MAB(p, X, Y, present=None, heads=2):
    H = norm(multihead(p, X, Y, present, heads))
    return norm(H + np.maximum(dense(H, p["ff"]), 0))


def ISAB(p, X, present=None, heads=2):
    I = np.broadcast_to(p["inducing"], (len(X),) + p["inducing"].shape)
    H = MAB(p["mab1"], I, X, present, heads)
    return MAB(p["mab2"], X, H, None, heads)


def PMA(p, X, present=None, heads=2):
    S = np.broadcast_to(p["seeds"], (len(X),) + p["seeds"].shape)
    return MAB(p["mab"], S, X, present, heads)


def init_mab(dq, dk, d):
    lin = lambda i, o: {"W": rng.normal(0, i ** -0.5, (i, o)), "b": np.zeros(o)}
    return {"q": lin(dq, d), "k": lin(dk, d), "v": lin(dk, d), "ff": lin(d, d)}


def init(d_in, d=16, m=5, n_out=1):
    return {
        "isab": {"inducing": rng.normal(size=(m, d)), "mab1": init_mab(d, d_in, d), "mab2": init_mab(d_in, d, d)},
        "pma": {"seeds": rng.normal(size=(n_out, d)), "mab": init_mab(d, d, d)},
        "out": {"W": rng.normal(0, 0.25, (d, 1)), "b": np.zeros(1)},
    }


def count_clusters(params, X, present=None, heads=2):
    """X (B, N, d_in) point sets -> (B,) predicted count"""
    H = ISAB(params["isab"], X, present, heads)
    Z = PMA(params["pma"], H, present, heads)
    return np.logaddexp(0, dense(Z, params["out"]))[:, 0, 0]


if __name__ == "__main__":
    P = init(2)
    X = rng.normal(size=(3, 9, 2))
    present = np.arange(9)[None] < np.array([9, 6, 4])[:, None]
    print(count_clusters(P, X, present))
