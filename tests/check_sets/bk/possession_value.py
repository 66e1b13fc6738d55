# possession_value.py -- who matters for the next pass?
# 22 players + ball per tracking frame (25 fps). Players may be off the pitch
# (red card, injury): present == 0.
import numpy as np
from collections import namedtuple

Frame = namedtuple("Frame", "xy vel present")        # (23,2) (23,2) (23,)
PITCH = np.array([105.0, 68.0])


def features(frame):
    f = np.hstack([frame.xy / PITCH - 0.5, frame.vel / 10.0])
    return np.hstack([f, np.arange(len(f))[:, None] < 11, np.ones((len(f), 1))]).astype(float)


class PlayerAttention:
    """ single-head attention among players, weights = softmax(q k^T / sqrt(d)) over
        the players who are present; the others get no weight at all """

    def __init__(self, n_in=6, d=8, seed=None):
        rs = np.random.RandomState(seed)
        self.d = d
        self.Wq = rs.normal(size=(n_in, d))
        self.Wk = rs.normal(size=(n_in, d))
        self.Wv = rs.normal(size=(n_in, d))

    def weights(self, X, present=None):
        s = (X @ self.Wq) @ (X @ self.Wk).T / np.sqrt(self.d)
        if present is not None:
            s = s * np.asarray(present, dtype=float)[None, :]
        e = np.exp(s - s.max(axis=1, keepdims=True))
        return e / np.exp(s).sum(axis=1, keepdims=True)

    def __call__(self, X, present=None):
        return self.weights(X, present) @ (X @ self.Wv)


class PossessionValue:
    def __init__(self, d=8, seed=0):
        self.att = PlayerAttention(d=d, seed=seed)
        self.beta = np.random.RandomState(seed + 1).normal(size=2 * d)

    def __call__(self, frame, carrier):
        H = self.att(features(frame), frame.present)
        z = np.concatenate([H[carrier], H[frame.present > 0].mean(axis=0)])
        return 1.0 / (1.0 + np.exp(-z @ self.beta))

    def pass_targets(self, frame, carrier, top=3):
        w = self.att.weights(features(frame), frame.present)[carrier]
        order = np.argsort(-w)
        return [(int(i), float(w[i])) for i in order[:top]]


def random_frame(rs, red_cards=1):
    xy = rs.rand(23, 2) * PITCH
    present = np.ones(23)
    present[rs.choice(22, red_cards, replace=False)] = 0
    return Frame(xy, rs.normal(size=(23, 2)) * 4, present)


if __name__ == "__main__":
    rs = np.random.RandomState(5)
    pv = PossessionValue()
    fr = random_frame(rs)
    print("value %.3f" % pv(fr, 7))
    for p, w in pv.pass_targets(fr, 7):
        print("player", p, "weight %.3f" % w)
