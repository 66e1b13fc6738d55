# Kaggle "hourly demand": non-parametric baseline before the LSTM.
import numpy as np


def features(y, lags=24):
    """(T,) series -> (T - lags, lags) windows and (T - lags,) next values."""
    X = np.stack([y[i:i + lags] for i in range(len(y) - lags)])
    return X, y[lags:]


def nw_forecast(X_hist, y_hist, X_now, t_hist, t_now, h=1.0):
    """Nadaraya-Watson regression with a Gaussian kernel.

    X_hist (N, L), y_hist (N,), X_now (M, L); t_hist (N,), t_now (M,) time stamps.
    A forecast only uses windows that are strictly older than itself; the first
    window in time order has nothing older, so t_now must be > t_hist.min().
    """
    d2 = (X_now ** 2).sum(1)[:, None] + (X_hist ** 2).sum(1)[None, :] - 2 * X_now @ X_hist.T
    logw = -d2 / (2 * h ** 2)
    logw[t_hist[None, :] >= t_now[:, None]] = -np.inf
    logw = logw - logw.max(axis=1, keepdims=True)
    w = np.exp(logw)
    w = w / w.sum(axis=1, keepdims=True)
    return w @ y_hist


if __name__ == "__main__":
    y = np.sin(np.arange(300) / 6) + 0.1 * np.random.randn(300)
    X, z = features(y)
    t = np.arange(len(z))
    p = nw_forecast(X[:200], z[:200], X[200:], t[:200], t[200:])
    print("rmse", np.sqrt(np.mean((p - z[200:]) ** 2)))
