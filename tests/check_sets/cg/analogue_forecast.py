"""Analogue forecasting from decades of station records, in constant memory.

Today's weather patterns attend over all the archived patterns (softmax of scaled dot
products) and the forecast is the weighted mean of what followed.  The archive does not
fit in memory, so it is read year by year and the softmax is accumulated with a running
maximum and a running sum; the result is that of one softmax over the whole archive.
"""
import numpy as np


class OnlineSoftmaxMean:
    """Accumulates softmax(scores) @ values over successive blocks of keys."""

    def __init__(self, n_rows, n_cols):
        self.top = np.full((n_rows, 1), -np.inf)
        self.norm = np.zeros((n_rows, 1))
        self.total = np.zeros((n_rows, n_cols))

    def update(self, scores, values):
        new_top = np.maximum(self.top, scores.max(axis=1, keepdims=True))
        decay = np.exp(self.top - new_top)
        e = np.exp(scores - new_top)
        self.norm = self.norm * decay + e.sum(axis=1, keepdims=True)
        self.total = self.total + e @ values
        self.top = new_top

    def result(self):
        return self.total / self.norm


class AnalogueForecaster:
    """archive [years, days, p] patterns; followed_by [years, days, c], 24 h later.

    Both may be memory maps; one year is loaded at a time.
    """

    def __init__(self, archive, followed_by, sharpness=None):
        if archive.shape[:2] != followed_by.shape[:2]:
            raise ValueError("archive and followed_by disagree on years and days")
        self.archive, self.followed_by = archive, followed_by
        self.mean = np.mean([year.mean(0) for year in archive], axis=0)
        spread = [((year - self.mean) ** 2).mean(0) for year in archive]
        self.std = np.sqrt(np.mean(spread, axis=0)) + 1e-12
        self.scale = sharpness or archive.shape[-1] ** -0.5

    def _standard(self, patterns):
        return (np.asarray(patterns, dtype=np.float64) - self.mean) / self.std

    def forecast(self, patterns):
        """patterns [N, p] -> [N, c]"""
        q = self._standard(patterns) * self.scale
        acc = OnlineSoftmaxMean(len(q), self.followed_by.shape[-1])
        for year, after in zip(self.archive, self.followed_by):
            acc.update(q @ self._standard(year).T, np.asarray(after, dtype=np.float64))
        return acc.result()


if __name__ == "__main__":
    g = np.random.default_rng(0)
    past = g.normal(size=(5, 365, 12))
    model = AnalogueForecaster(past, g.normal(size=(5, 365, 2)))
    print(model.forecast(past[0, :3]).round(3))
