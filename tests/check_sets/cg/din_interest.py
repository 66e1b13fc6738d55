"""Offline scorer for the "interest" tower of the shop ranking model.

Port of the Deep Interest Network activation unit to plain numpy, so that the
batch job needs no deep learning runtime.  Weights come from an ``.npz`` export.

As in the DIN paper the activation weights are *not* normalised with a softmax:
their sum is meant to say how strong the interest is, so a user with many
clicks close to the candidate gets a longer vector than a user with one.
"""
import numpy as np


def prelu(x, a):
    return np.where(x >= 0, x, a * x)


class InterestScorer:
    """weights: dict with w1 [4D, M], b1 [M], a1 [M], w2 [M, 1], b2 [1]."""

    def __init__(self, weights):
        self.w = {k: np.asarray(v, dtype=np.float64) for k, v in weights.items()}

    @classmethod
    def random(cls, dim=8, hidden=16, seed=0):
        g = np.random.default_rng(seed)
        return cls(
            dict(
                w1=g.normal(size=(4 * dim, hidden)) / np.sqrt(4 * dim),
                b1=g.normal(size=hidden) * 0.1,
                a1=np.full(hidden, 0.25),
                w2=g.normal(size=(hidden, 1)) / np.sqrt(hidden),
                b2=np.zeros(1),
            )
        )

    def activation(self, candidate, clicks):
        """One weight per click: MLP([click, cand, click - cand, click * cand])."""
        c = np.broadcast_to(candidate[:, None, :], clicks.shape)
        feats = np.concatenate([clicks, c, clicks - c, clicks * c], axis=-1)
        hid = prelu(feats @ self.w["w1"] + self.w["b1"], self.w["a1"])
        return (hid @ self.w["w2"] + self.w["b2"])[..., 0]

    def __call__(self, candidate, clicks, n_clicks):
        """candidate [B, D], clicks [B, T, D], n_clicks [B] -> interest [B, D].

        Clicks past ``n_clicks`` are padding and add nothing.
        """
        weight = self.activation(candidate, clicks)
        live = np.arange(clicks.shape[1])[None, :] < np.asarray(n_clicks)[:, None]
        weight = np.where(live, weight, 0.0)
        return np.einsum("bt,btd->bd", weight, np.where(live[..., None], clicks, 0.0))


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    scorer = InterestScorer.random()
    print(scorer(rng.normal(size=(2, 8)), rng.normal(size=(2, 5, 8)), [5, 3]).round(3))
