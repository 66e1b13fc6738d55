"""gritter_rounds -- where the winter service has already spread salt.

Linear attention (Katharopoulos et al. 2020).  phi(x) = elu(x) + 1, no softmax and
no 1/sqrt(d); the answer at step t is

      sum_{s<=t} phi(q_t).phi(k_s) v_s  /  sum_{s<=t} phi(q_t).phi(k_s)
"""
import numpy as np

EPS = 1e-12


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class GritterMemory:
    def __init__(self, n_in, n_key, n_val, rng=None):
        rng = rng or np.random.default_rng(12)
        self.Wq = rng.normal(0, n_in ** -0.5, (n_in, n_key))
        self.Wk = rng.normal(0, n_in ** -0.5, (n_in, n_key))
        self.Wv = rng.normal(0, n_in ** -0.5, (n_in, n_val))
        self.reset()

    def reset(self):
        """Shift begins, roads are bare."""
        self.S = np.zeros((self.Wk.shape[1], self.Wv.shape[1]))
        self.z = np.zeros(self.Wk.shape[1])

    def drive(self, x):
        """One road segment, x (n_in,) -> (n_val,)"""
        q, k, v = phi(x @ self.Wq), phi(x @ self.Wk), x @ self.Wv
        self.S += np.outer(k, v)
        self.z += k
        return q @ self.S / (q @ self.z + EPS)

    def __call__(self, X):
        """A whole round at once, X (T, n_in) -> (T, n_val); does not touch the state."""
        q, k, v = phi(X @ self.Wq), phi(X @ self.Wk), X @ self.Wv
        S = np.cumsum(k[:, :, None] * v[:, None, :], axis=0)
        z = np.cumsum(k, axis=0)
        top = np.einsum("tk,tkv->tv", q, S)
        return top / ((q * z).sum(1, keepdims=True) + EPS)


def salt_needed(grip, target=0.6, gram_per_m2=20.0):
    lack = np.clip(target - grip, 0.0, None)
    return gram_per_m2 * lack / target


def plan_round(mem, segments, readout):
    """segments (T, n_in), readout (n_val,) -> grams per square metre for every segment"""
    mem.reset()
    grip = 1.0 / (1.0 + np.exp(-np.array([mem.drive(s) for s in segments]) @ readout))
    return salt_needed(grip)


if __name__ == "__main__":
    g = np.random.default_rng(0)
    m = GritterMemory(5, 6, 3)
    print(plan_round(m, g.normal(size=(7, 5)), g.normal(size=3)).round(2))
