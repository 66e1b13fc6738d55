"""Investor attention, after Da, Engelberg and Gao (2011): abnormal search volume (ASVI).

abnormal_attention(svi, weeks=8)
    svi    (T, A)  weekly search volume index of A tickers, positive
    weeks          length of the trailing window
returns (T, A):  log(svi_t) - log(median of svi_{t-weeks} .. svi_{t-1}); NaN for the first
`weeks` rows, for which there is no full window.

attention_portfolio(asvi, top) turns the last row into equal weights of the `top` tickers
with the largest abnormal attention, going short the `top` smallest.
"""
import numpy as np


def abnormal_attention(svi, weeks=8):
    svi = np.asarray(svi, float)
    T, A = svi.shape
    out = np.full((T, A), np.nan)
    for t in range(weeks, T):
        usual = np.median(svi[t - weeks : t], axis=0)
        out[t] = np.log(svi[t]) - np.log(usual)
    return out


def attention_portfolio(asvi, top):
    order = np.argsort(asvi[-1])
    w = np.zeros(asvi.shape[1])
    w[order[-top:]] = 1.0 / top
    w[order[:top]] = -1.0 / top
    return w


if __name__ == "__main__":
    g = np.random.default_rng(4)
    a = abnormal_attention(np.exp(g.normal(size=(30, 12))))
    print(attention_portfolio(a, 3))
