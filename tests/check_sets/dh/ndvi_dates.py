"""Crop type from NDVI time series: dates of one field exchange information."""
import numpy as np


def positional(doy, c):
    """Sinusoids of the day of the year, doy (T,) -> (T, c), c even."""
    rate = 1000.0 ** (-np.arange(0, c, 2) / c)
    ang = doy[:, None] * rate
    return np.concatenate([np.sin(ang), np.cos(ang)], axis=1)


def soft(z, axis):
    e = np.exp(z - z.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def date_exchange(series, doy, wq, wk, wv, heads=2):
    """
    series (F, T, c)  fields x acquisition dates x bands
    doy    (T,)       day of year
    wq, wk, wv (c, c)
    returns (F, T, c): each date collects from all dates of its field
    """
    F, T, c = series.shape
    x = series + positional(doy, c)
    split = lambda z: z.reshape(F, T, heads, c // heads).transpose(0, 2, 1, 3)
    q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)
    s = np.matmul(q, k.swapaxes(-1, -2)) / np.sqrt(c // heads)
    a = soft(s, 2)
    y = np.matmul(a, v)
    return y.transpose(0, 2, 1, 3).reshape(F, T, c)
