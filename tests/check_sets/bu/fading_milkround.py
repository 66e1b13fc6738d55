"""fading_milkround: customers of a milk round, who is going to need what tomorrow?

Linear attention with forgetting.  With phi > 0 and 0 < gamma < 1,

            sum_s gamma^(t-s) phi(q_t).phi(k_s) v_s
    y_t  =  ---------------------------------------        (s = 0 .. t)
            sum_s gamma^(t-s) phi(q_t).phi(k_s)

a weighted mean of all earlier values in which old ones count less and less.
"""
import numpy as np


def softplus(x):
    return np.logaddexp(0.0, x)


def half_life(days):
    """gamma so that a delivery counts half after `days` days"""
    return 0.5 ** (1.0 / days)


class FadingMemory:
    def __init__(self, gamma, phi=softplus):
        if not 0 < gamma < 1:
            raise ValueError("gamma in (0, 1)")
        self.gamma, self.phi = gamma, phi
        self.S = None
        self.z = None

    def clear(self):
        self.S = self.z = None

    def step(self, q, k, v):
        """q, k (customers, d), v (customers, e) -> (customers, e)"""
        q, k = self.phi(q), self.phi(k)
        if self.S is None:
            self.S = np.zeros(k.shape + v.shape[-1:])
            self.z = np.zeros_like(k)
        self.S = self.gamma * self.S + k[:, :, None] * v[:, None, :]
        self.z = self.z + k
        num = np.einsum("cd,cde->ce", q, self.S)
        den = np.einsum("cd,cd->c", q, self.z)
        return num / den[:, None]

    def __call__(self, Q, K, V):
        """whole histories, (customers, T, .)"""
        self.clear()
        return np.stack([self.step(Q[:, t], K[:, t], V[:, t]) for t in range(Q.shape[1])], axis=1)


def weekday_code(t, d=4):
    ang = 2 * np.pi * np.arange(t)[:, None] * np.arange(1, d // 2 + 1) / 7
    return np.concatenate([np.sin(ang), np.cos(ang)], 1)


def expected_bottles(orders, days=10.0):
    """orders (customers, T) -> forecast after each day (customers, T)"""
    c, t = orders.shape
    code = np.broadcast_to(weekday_code(t + 1), (c, t + 1, 4))
    memory = FadingMemory(half_life(days))
    return memory(2 * code[:, 1:], 2 * code[:, :-1], orders[..., None].astype(float))[..., 0]


if __name__ == "__main__":
    g = np.random.default_rng(8)
    print(expected_bottles(g.poisson(3, (2, 9))).round(2))
