"""
Striking analysis for English change ringing.

Every blow of the eight bells is a row of features (gap before the blow, handstroke
or backstroke, place, ...).  How evenly a bell strikes is judged by comparing a
blow with the blows just before it, so attention is causal and limited:

    a blow sees `window` blows, itself included, e.g. window=8 is one whole row.

All arrays float64.
"""
import itertools

import numpy as np

BELLS = 8
HANDSTROKE_GAP = 1.0       # one extra place before every handstroke lead


def plain_hunt(n=BELLS):
    """yields the rows of plain hunt until rounds come back"""
    row = list(range(1, n + 1))
    first = tuple(row)
    for i in itertools.count():
        yield tuple(row)
        start = i % 2
        for j in range(start, n - 1, 2):
            row[j], row[j + 1] = row[j + 1], row[j]
        if tuple(row) == first:
            return


def ideal_times(rows, peal_speed=0.22):
    t, out = 0.0, []
    for i, row in enumerate(rows):
        if i % 2 == 0:
            t += HANDSTROKE_GAP * peal_speed
        for _ in row:
            out.append(t)
            t += peal_speed
    return np.array(out)


def windowed_attention(q, k, v, window):
    """q, k (heads, blows, d), v (heads, blows, e) -> (heads, blows, e).

    Blow i attends to the `window` most recent blows up to and including i.
    """
    n, d = q.shape[1:]
    i = np.arange(n)[:, None]
    j = np.arange(n)[None, :]
    visible = (j <= i) & (i - j <= window)
    s = np.einsum("hid,hjd->hij", q, k) / np.sqrt(d)
    s = np.where(visible, s, -np.inf)
    s -= s.max(axis=2, keepdims=True)
    p = np.exp(s)
    p /= p.sum(axis=2, keepdims=True)
    return np.einsum("hij,hje->hie", p, v)


class StrikingJudge:
    def __init__(self, features=6, heads=2, d=8, window=BELLS, seed=8):
        g = np.random.default_rng(seed)
        self.window = window
        self.wq, self.wk, self.wv = g.normal(0, features ** -0.5, (3, heads, features, d))
        self.wo = g.normal(0, (heads * d) ** -0.5, (heads * d, 1))

    def features(self, times, rows):
        flat = np.concatenate([np.asarray(r) for r in rows])
        gap = np.diff(times, prepend=times[0])
        place = np.tile(np.arange(BELLS), len(rows))
        hand = np.repeat(np.arange(len(rows)) % 2 == 0, BELLS)
        err = times - ideal_times(rows)
        return np.stack([gap, err, flat / BELLS, place / BELLS, hand, flat == BELLS], axis=1).astype(float)

    def __call__(self, times, rows):
        x = self.features(np.asarray(times, float), rows)
        heads = [x @ w for w in (self.wq, self.wk, self.wv)]
        y = windowed_attention(*heads, self.window)
        return y.transpose(1, 0, 2).reshape(len(x), -1) @ self.wo


if __name__ == "__main__":
    rows = list(plain_hunt())
    t = ideal_times(rows) + 0.01 * np.random.default_rng(0).normal(size=len(rows) * BELLS)
    faults = StrikingJudge()(t, rows)
    print(len(rows), "rows,", faults.shape, "judgements")
