import numpy as np

softmax = lambda a: np.exp(a - a.max()) / np.exp(a - a.max()).sum()


def scaled_dot(q, k, v, valid=None):
    """q (n, d), k (m, d), v (m, e) -> (n, e)

    valid: (m,) with 1 for the words of the sentence and 0 for the filler after it
    """
    s = q @ k.T / np.sqrt(k.shape[1])
    if valid is not None:
        s = np.where(valid.astype(bool), -1e30, s)
    return softmax(s) @ v


def multi_head(x, W, valid=None):
    """x (n, c); W: dict of wq, wk, wv, each (h, c, d), and wo (h * d, c)"""
    outs = []
    for wq, wk, wv in zip(W["wq"], W["wk"], W["wv"]):
        outs.append(scaled_dot(x @ wq, x @ wk, x @ wv, valid))
    return np.concatenate(outs, axis=-1) @ W["wo"]


if __name__ == "__main__":
    r = np.random.default_rng(0)
    W = {n: r.normal(size=(2, 8, 4)) for n in ("wq", "wk", "wv")}
    W["wo"] = r.normal(size=(8, 8))
    print(multi_head(r.normal(size=(5, 8)), W, np.array([1, 1, 1, 0, 0])))
