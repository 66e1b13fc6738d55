# moraine_ridge.py
# Boulder exposure ages on terminal moraines. I normally write R; the verbs
# (sweep, apply_rows, outer_with, cbind) are here so that I can read my own code.
import numpy as np

MARGIN_ROWS = 1
MARGIN_COLS = 2


def sweep(x, margin, stat, fun="-"):
    stat = stat[:, None] if margin == MARGIN_ROWS else stat[None, :]
    return {"-": np.subtract, "/": np.divide, "*": np.multiply, "+": np.add}[fun](x, stat)


def apply_rows(x, fun):
    return np.array([fun(r) for r in x])


def cbind(*cols):
    return np.concatenate(cols, axis=1)


def tcrossprod(a, b):
    """a %*% t(b)"""
    return a @ b.T


def prop_table(x, margin=MARGIN_ROWS):
    """Rows (or columns) of the softmax of x; like prop.table(exp(x), margin)."""
    if margin == MARGIN_COLS:
        return prop_table(x.T).T
    e = np.exp(sweep(x, MARGIN_ROWS, apply_rows(x, np.max)))
    return sweep(e, MARGIN_ROWS, apply_rows(e, np.sum), "/")


def head_columns(n_col, heads):
    return np.split(np.arange(n_col), heads)


def attend_boulders(x, fit, heads=2, offset=None):
    """Multi-head self-attention between the boulders of one moraine.

    x       n x p matrix, one boulder per row
    fit     list with Wq, Wk, Wv, Wo (p x p each)
    offset  n x n matrix that is ADDED to the linear predictor of the weights,
            0 = may influence, -Inf = may not (e.g. other valley).
            Row i receives, column j gives.
    """
    q, k, v = x @ fit["Wq"], x @ fit["Wk"], x @ fit["Wv"]
    parts = []
    for cols in head_columns(x.shape[1], heads):
        eta = tcrossprod(q[:, cols], k[:, cols]) / np.sqrt(len(cols))
        if offset is not None:
            eta = eta + offset
        parts.append(prop_table(eta) @ v[:, cols])
    return cbind(*parts) @ fit["Wo"]


def same_valley(valley):
    """offset matrix from a factor"""
    valley = np.asarray(valley)
    return np.where(valley[:, None] == valley[None, :], 0.0, -np.inf)


def rfit(p, seed=42):
    g = np.random.default_rng(seed)
    return {n: g.normal(size=(p, p)) / np.sqrt(p) for n in ("Wq", "Wk", "Wv", "Wo")}


def ridge_age(x, fit, beta, valley):
    h = x + attend_boulders(x, fit, offset=same_valley(valley))
    return h @ beta


if __name__ == "__main__":
    g = np.random.default_rng(2)
    x = g.normal(size=(6, 4))
    print(ridge_age(x, rfit(4), g.normal(size=4), list("aabbba")))
