"""
When does the geyser erupt next?  A forgetful linear-attention filter in NumPy.

    y_t = sum_{s<=t} g^(t-s) (phi(q_t).phi(k_s)) v_s  /  sum_{s<=t} g^(t-s) phi(q_t).phi(k_s)

with one decay g per head, 0 < g <= 1, and phi(x) = elu(x) + 1.  Old tremors fade away, but the
result stays a weighted mean of the values.  Runs as a recurrence: the logger box in the field has
64 MB of memory and one sample per second, so a state is kept between calls.
"""
import numpy as np


def phi(x):
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class State:
    __slots__ = ("S", "z")

    def __init__(self, heads, d, dv):
        self.S = np.zeros((heads, d, dv))
        self.z = np.zeros((heads, d))

    def copy(self):
        new = State.__new__(State)
        new.S, new.z = self.S.copy(), self.z.copy()
        return new


def fading_attention(q, k, v, g, state=None):
    """q, k [T, heads, d]; v [T, heads, dv]; g [heads].  Returns (y [T, heads, dv], state)."""
    T, heads, d = q.shape
    state = State(heads, d, v.shape[-1]) if state is None else state.copy()
    g = np.asarray(g, float)
    fq, fk = phi(q), phi(k)
    y = np.empty((T, heads, v.shape[-1]))
    for t in range(T):
        state.S = g[:, None, None] * state.S + fk[t][:, :, None] * v[t][:, None, :]
        state.z = state.z + fk[t]
        top = np.einsum("hd,hde->he", fq[t], state.S)
        bottom = np.einsum("hd,hd->h", fq[t], state.z)
        y[t] = top / bottom[:, None]
    return y, state


class GeyserLogger:
    def __init__(self, channels=3, heads=2, d=4, half_lives=(20.0, 300.0), seed=7):
        rng = np.random.default_rng(seed)
        self.heads, self.d = heads, d
        self.w = rng.normal(0, channels ** -0.5, (3, channels, heads * d))
        self.out = rng.normal(0, (heads * d) ** -0.5, heads * d)
        self.g = 0.5 ** (1.0 / np.asarray(half_lives[:heads]))
        self.state = None

    def feed(self, samples):
        """samples [T, channels], any T; returns the eruption index [T]."""
        samples = np.atleast_2d(np.asarray(samples, float))
        q, k, v = (samples @ w for w in self.w)
        q, k, v = (a.reshape(len(samples), self.heads, self.d) for a in (q, k, v))
        y, self.state = fading_attention(q, k, v, self.g, self.state)
        return y.reshape(len(samples), -1) @ self.out

    def restart(self):
        self.state = None


def synthetic(n=600, period=170, seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(n)
    swell = ((t % period) / period) ** 3
    return np.stack([swell + 0.1 * rng.normal(size=n), np.gradient(swell), rng.normal(size=n) * swell], 1)


if __name__ == "__main__":
    box = GeyserLogger()
    trace = synthetic()
    index = np.concatenate([box.feed(part) for part in np.array_split(trace, 12)])
    print("loudest second:", int(index.argmax()), "index", index.max().round(3))
