"""Fill gaps of multivariate sensor series by attending to the observed steps.

Every step asks the steps that were observed; a step that was not observed is
never read.  A Gaussian kernel on the time difference is added to the dot product,
so near steps are preferred (bandwidth in hours).
"""
import numpy as np


class GapFiller:
    """
    fill = GapFiller(features=4, width=8)
    complete = fill(values, hours, observed)
    """

    def __init__(self, features, width=8, bandwidth=6.0, seed=11):
        rng = np.random.default_rng(seed)
        self.width = width
        self.bandwidth = bandwidth
        self.wq = rng.normal(0, features ** -0.5, (features, width))
        self.wk = rng.normal(0, features ** -0.5, (features, width))
        self.wv = np.eye(features)

    def _scores(self, values, hours):
        q = values @ self.wq
        k = values @ self.wk
        dot = np.einsum("btw,bsw->bts", q, k) / np.sqrt(self.width)
        gap = hours[:, :, None] - hours[:, None, :]
        return dot - 0.5 * (gap / self.bandwidth) ** 2

    def _weights(self, scores, observed):
        penalty = np.where(observed[:, None, :], 0.0, -np.inf)
        scores = scores - penalty
        scores = scores - scores.max(axis=-1, keepdims=True)
        w = np.exp(scores)
        return w / w.sum(axis=-1, keepdims=True)

    def __call__(self, values, hours, observed):
        """values (B, T, F), hours (B, T), observed (B, T) bool; gaps hold 0."""
        values = np.where(observed[..., None], values, 0.0)
        w = self._weights(self._scores(values, hours), observed)
        estimate = np.einsum("bts,bsf->btf", w, values @ self.wv)
        return np.where(observed[..., None], values, estimate)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    series = rng.normal(size=(2, 10, 4))
    hours = np.sort(rng.uniform(0, 48, (2, 10)), axis=1)
    print(GapFiller(4)(series, hours, np.ones((2, 10), bool)).shape)
