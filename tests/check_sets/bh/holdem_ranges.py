"""Opponent-range model for heads-up hold'em. Plain NumPy, runs in the browser
through Pyodide, so no torch here.

History of a hand = list of actions (fold/call/raise sizes, board cards). The
encoder lets every action look at all earlier *and* later ones of the hand
(we analyse finished hands).
"""
import numpy as np

ACTIONS = {"fold": 0, "check": 1, "call": 2, "bet_third": 3, "bet_pot": 4, "all_in": 5}


class HandEncoder:
    """Self-attention over one batch of hands.

    encode(x, played): x (B, T, C); played (B, T) bool array, True for actions
    that took place, False for the filling at the end. Several heads, each of
    width C/heads; the usual scaled dot product. The arrays of the caller are
    left as they are, `played` is used again for the pooling.
    """

    def __init__(self, channels, heads, seed=0):
        r = np.random.default_rng(seed)
        self.c, self.heads = channels, heads
        self.w = {n: r.normal(0, channels ** -0.5, (channels, channels)) for n in "qkvo"}

    def _cut(self, y):
        b, t, _ = y.shape
        return y.reshape(b, t, self.heads, self.c // self.heads).transpose(0, 2, 1, 3)

    def encode(self, x, played=None):
        q, k, v = (self._cut(x @ self.w[n]) for n in "qkv")
        s = q @ k.transpose(0, 1, 3, 2)
        s = s / np.sqrt(self.heads)
        if played is not None:
            hide = np.logical_not(played, out=played)
            s = np.where(hide[:, None, None, :], -np.inf, s)
        s = s - s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p = p / p.sum(axis=-1, keepdims=True)
        y = (p @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        return y @ self.w["o"]


def action_features(hand, channels, max_len=24):
    """hand: list of (action name, amount in big blinds, street 0..3)"""
    x = np.zeros((max_len, channels))
    for i, (name, amount, street) in enumerate(hand[:max_len]):
        x[i, ACTIONS[name]] = 1.0
        x[i, 6 + street] = 1.0
        x[i, 10] = np.log1p(amount)
        x[i, 11] = i / max_len
    played = np.arange(max_len) < len(hand)
    return x, played


class RangeModel:
    """169 starting-hand classes"""

    def __init__(self, channels=32, heads=2, seed=3):
        self.enc = HandEncoder(channels, heads, seed)
        self.out = np.random.default_rng(seed).normal(0, 0.1, (channels, 169))
        self.channels = channels

    def predict(self, hands):
        feats = [action_features(h, self.channels) for h in hands]
        x = np.stack([f[0] for f in feats])
        played = np.stack([f[1] for f in feats])
        h = x + self.enc.encode(x, played)
        w = played[..., None].astype(float)
        pooled = (h * w).sum(1) / w.sum(1)
        z = pooled @ self.out
        z -= z.max(-1, keepdims=True)
        e = np.exp(z)
        return e / e.sum(-1, keepdims=True)


def entropy_bits(p):
    return -(p * np.log2(p + 1e-12)).sum(-1)


if __name__ == "__main__":
    hands = [[("check", 0, 0), ("bet_third", 2.5, 1), ("call", 2.5, 1)],
             [("bet_pot", 3, 0), ("call", 3, 0), ("check", 0, 1), ("all_in", 80, 1)]]
    print(entropy_bits(RangeModel().predict(hands)))
