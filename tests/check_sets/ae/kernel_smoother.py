# Nadaraya-Watson regression seen as attention pooling over irregularly sampled time series
import numpy as np


def smooth(t_query, t_obs, y_obs, width):
    """Gaussian-kernel attention.

    t_query (M,), t_obs (N,), y_obs (N, C), NaN in y_obs = not observed. Returns (M, C); a channel with no
    observation at all gives NaN.
    """
    d = (t_query[:, None] - t_obs[None, :]) / width
    logit = -0.5 * d[:, :, None] ** 2                           # M N 1
    seen = ~np.isnan(y_obs)
    logit = np.where(seen[None], logit, -np.inf)                # M N C
    with np.errstate(invalid="ignore"):
        logw = logit - np.logaddexp.reduce(logit, axis=1, keepdims=True)
    y = np.where(seen, y_obs, 0.0)
    return np.einsum("mnc,nc->mc", np.exp(logw), y)


def leave_one_out(t, y, widths):
    """Mean squared error of each width when every observation is predicted from the others."""
    res = []
    for w in widths:
        err = []
        for i in range(len(t)):
            keep = np.arange(len(t)) != i
            err.append(smooth(t[i:i + 1], t[keep], y[keep], w)[0] - y[i])
        res.append(np.nanmean(np.square(err)))
    return np.array(res)
