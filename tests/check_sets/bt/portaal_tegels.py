"""Stralingsportaal bij de havenpoort: vrachtwagens rijden stapvoets langs vier detectoren.

Aandacht in tegels (online softmax), want een passage kan duizenden tellingen lang zijn en
de industriële pc heeft nauwelijks geheugen.

Vormen: q [H, Lq, d], k [H, Lk, d], v [H, Lk, e]. Bij `oorzakelijk` horen de Lq vragen
bij de LAATSTE Lq tijdstippen van de Lk sleutels (aansluiting rechtsonder).
`lengte` = aantal geldige sleutels aan het begin; een vraag zonder sleutel geeft nullen.
"""
import numpy as np

TEGEL_Q, TEGEL_K = 4, 8


def zicht(i, j, lq, lk, lengte, oorzakelijk):
    ok = (j < lengte)[None, :]
    if oorzakelijk:
        ok = ok & (j[None, :] <= i[:, None] + (lk - lq))
    return np.broadcast_to(ok, (len(i), len(j)))


def een_tegelrij(q, k, v, i, lq, lengte, oorzakelijk):
    h, n, d = q.shape
    lk = k.shape[1]
    m = np.full((h, n), -np.inf)
    som = np.zeros((h, n))
    uit = np.zeros((h, n, v.shape[-1]))
    for start in range(0, lk, TEGEL_K):
        j = np.arange(start, min(start + TEGEL_K, lk))
        ok = zicht(i, j, lq, lk, lengte, oorzakelijk)
        if not ok.any():
            continue
        s = np.einsum("hid,hjd->hij", q, k[:, j]) / np.sqrt(d)
        s = np.where(ok, s, -np.inf)
        m_nieuw = np.maximum(m, s.max(-1))
        basis = np.where(np.isneginf(m_nieuw), 0.0, m_nieuw)   # nog niets gezien
        krimp = np.exp(m - basis)
        p = np.exp(s - basis[..., None])
        som = som * krimp + p.sum(-1)
        uit = uit * krimp[..., None] + p @ v[:, j]
        m = m_nieuw
    return uit / np.where(som > 0, som, 1.0)[..., None]


def tegel_aandacht(q, k, v, lengte=None, oorzakelijk=False):
    lq, lk = q.shape[1], k.shape[1]
    lengte = lk if lengte is None else lengte
    rijen = []
    for start in range(0, lq, TEGEL_Q):
        i = np.arange(start, min(start + TEGEL_Q, lq))
        rijen.append(een_tegelrij(q[:, i], k, v, i, lq, lengte, oorzakelijk))
    return np.concatenate(rijen, axis=1)


def alarm(tellingen, gewichten, drempel=3.0):
    """tellingen [T, 4] -> bool [T]; z-score tegen een aandachtsgewogen achtergrond."""
    x = np.sqrt(tellingen + 0.375)                     # Anscombe
    q, k = x @ gewichten["q"], x @ gewichten["k"]
    achtergrond = tegel_aandacht(q[None], k[None], x[None], oorzakelijk=True)[0]
    return (2 * (x - achtergrond)).max(-1) > drempel


if __name__ == "__main__":
    rng = np.random.default_rng(4)
    c = rng.poisson(40, size=(50, 4)).astype(float)
    c[30:34] += 60
    w = {n: rng.normal(size=(4, 6)) * 0.1 for n in "qk"}
    print(np.flatnonzero(alarm(c, w)))
