# Exported from notebook 03_attention_as_regression.ipynb
# In [1]:
import numpy as np

# The oldest attention: Nadaraya (1964) and Watson (1964).
#
#   f(x) = sum_i  K(x - x_i) / sum_j K(x - x_j)  *  y_i
#
# With a Gaussian kernel the weights are softmax(-(x - x_i)^2 / (2 h^2)).  Nothing like 1/sqrt(d) here,
# h does that job.  All samples are stored in columns (one column = one sample), like in our lectures.


# In [2]:
def pairwise_sq(A, B):
    """A (p, n), B (p, m) -> (m, n): entry [j, i] = |b_j - a_i|^2"""
    return (B ** 2).sum(0)[:, None] + (A ** 2).sum(0)[None, :] - 2 * B.T @ A


def column_softmax(S):
    E = np.exp(S - S.max(axis=0, keepdims=True))
    return E / E.sum(axis=0, keepdims=True)


# In [3]:
class NadarayaWatson:
    """Queries (p, n) -> predictions (o, n).

    leave_one_out: a query that is itself a training point does not look at its own target.
    """

    def __init__(self, h=1.0):
        self.log_h = np.log(h)

    def fit(self, X, Y):
        self.X, self.Y = np.atleast_2d(X), np.atleast_2d(Y)
        return self

    def weights(self, Q, leave_one_out=False):
        S = -pairwise_sq(np.atleast_2d(Q), self.X) / (2 * np.exp(2 * self.log_h))     # (m, n)
        if leave_one_out:
            S = _drop_diagonal(S)
        return column_softmax(S)

    def predict(self, Q, leave_one_out=False):
        return self.Y @ self.weights(Q, leave_one_out)

    def tune(self, grid):
        """Bandwidth with the least leave-one-out error."""
        errs = []
        for h in grid:
            self.log_h = np.log(h)
            errs.append(np.mean((self.predict(self.X, True) - self.Y) ** 2))
        self.log_h = np.log(grid[int(np.argmin(errs))])
        return errs


def _drop_diagonal(S):
    S = S.copy()
    np.fill_diagonal(S, -np.inf)
    return S


# In [4]:
if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 5, 50))
    y = 2 * np.sin(x) + x ** 0.8 + rng.normal(0, 0.5, 50)
    m = NadarayaWatson().fit(x, y)
    print(m.tune([0.05, 0.1, 0.2, 0.4, 0.8]))
    print(m.predict(np.linspace(0, 5, 7)))
