# Blend of gust forecasts from neighbouring stations.
# A station asks its neighbours (query = local predictors, keys = predictors of the
# neighbours, values = their last observed gusts); the answer is a weighted mean gust.
import numpy as np

KNOTS = 0.514444


def standardise(x, mu, sd):
    return (x - mu) / np.where(sd == 0, 1.0, sd)


def weights_of(sim):
    """Row-wise softmax, safe for large similarities."""
    e = np.exp(sim - sim.max(axis=-1, keepdims=True))
    return e / np.exp(sim).sum(axis=-1, keepdims=True)


def blend(local, neigh, gusts, w_local, w_neigh, missing=None):
    """Weighted gusts at S stations.

    local   (S, P)   predictors at the stations
    neigh   (N, P)   predictors at the neighbours
    gusts   (N, T)   observed gusts, m/s
    w_local, w_neigh (P, D)
    missing (N,) bool, True where the neighbour did not report in this hour

    Returns (S, T) gusts and the (S, N) weights, which sum to one over the neighbours
    that reported.
    """
    q = local @ w_local
    k = neigh @ w_neigh
    sim = q @ k.T / np.sqrt(q.shape[-1])
    if missing is not None:
        if missing.all():
            raise ValueError("no neighbour reported")
        sim = np.where(missing[None, :], -np.inf, sim)
    w = weights_of(sim)
    safe = gusts if missing is None else np.where(missing[:, None], 0.0, gusts)
    return w @ safe, w


def gust_warning(speed, limit_knots=34.0):
    return speed > limit_knots * KNOTS


def verify_mae(pred, obs):
    ok = np.isfinite(obs)
    return np.abs(pred - obs)[ok].mean()


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    loc, nb = rng.normal(size=(4, 6)), rng.normal(size=(9, 6))
    g = rng.gamma(3.0, 3.0, size=(9, 24))
    out, w = blend(loc, nb, g, rng.normal(size=(6, 5)), rng.normal(size=(6, 5)))
    print(out.shape, gust_warning(out).mean())
