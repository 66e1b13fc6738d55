"""Route choice between controls in foot orienteering.

A runner at control i weighs all controls by similarity of the legs plus a terrain
bias (contours, thicket, marsh), which is computed once per map because it needs
the elevation model. NumPy only; runs on the event centre's laptop.
"""
import numpy as np

RUNNABILITY = {"open": 1.0, "forest": 0.85, "slow": 0.6, "walk": 0.35, "fight": 0.1}
NAISMITH = 7.92             # one metre of climb = 7.92 metres of distance


def effort(xy, height, runnability):
    """[n, n] effort in "flat kilometres" between controls"""
    flat = np.linalg.norm(xy[:, None] - xy[None, :], axis=-1)
    climb = np.maximum(height[None, :] - height[:, None], 0.0)
    slow = 0.5 * (runnability[:, None] + runnability[None, :])
    return (flat + NAISMITH * climb) / np.maximum(slow, 0.05) / 1000.0


class MapAttention:
    """
    legs [n, f] -> context [n, f] for the first n controls of the map.

    scores = (legs Wq)(legs Wk)^T / sqrt(d) - effort
    cancelled: [n] bool, True for controls taken out of the race; they are not
    looked at.
    """

    def __init__(self, xy, height, runnability, features=8, d=6, seed=0):
        g = np.random.default_rng(seed)
        self.wq = g.normal(size=(features, d)) / np.sqrt(features)
        self.wk = g.normal(size=(features, d)) / np.sqrt(features)
        self.d = d
        self.bias = -effort(np.asarray(xy, float), np.asarray(height, float), np.asarray(runnability, float))

    def __call__(self, legs, cancelled=None):
        legs = np.asarray(legs, dtype=float)
        n = len(legs)
        scores = self.bias[:n, :n]
        scores += (legs @ self.wq) @ (legs @ self.wk).T / np.sqrt(self.d)
        if cancelled is not None:
            scores = np.where(np.asarray(cancelled)[None, :], -np.inf, scores)
        scores = scores - scores.max(axis=1, keepdims=True)
        w = np.exp(scores)
        w = w / w.sum(axis=1, keepdims=True)
        return w @ legs


class RoutePlanner:
    def __init__(self, course, seed=0):
        """course: dict with xy [N, 2], height [N], surface [N] of names"""
        run = np.array([RUNNABILITY[s] for s in course["surface"]])
        self.course = course
        self.attention = MapAttention(course["xy"], course["height"], run, seed=seed)

    def leg_features(self, n):
        xy = np.asarray(self.course["xy"], float)[:n]
        z = np.asarray(self.course["height"], float)[:n]
        nxt = np.roll(xy, -1, axis=0) - xy
        dist = np.linalg.norm(nxt, axis=1)
        angle = np.arctan2(nxt[:, 1], nxt[:, 0])
        return np.stack([dist / 500, np.cos(angle), np.sin(angle), np.roll(z, -1) / 50 - z / 50,
                         z / 50, np.arange(n) / n, np.ones(n), dist > 400], axis=1).astype(float)

    def plan(self, n, cancelled=None):
        """scores legs; a high number means: spend time on the map here"""
        x = self.leg_features(n)
        return np.abs(x - self.attention(x, cancelled)).sum(axis=1)


def demo():
    g = np.random.default_rng(5)
    names = list(RUNNABILITY)
    course = dict(xy=g.uniform(0, 2000, (12, 2)), height=g.uniform(40, 120, 12),
                  surface=[names[i] for i in g.integers(0, 5, 12)])
    print(RoutePlanner(course).plan(9).round(2))


if __name__ == "__main__":
    demo()
