"""Прогноз временных рядов: один слой внимания с относительными позициями (Shaw et al., 2018).

Формы: x [T, B, C] -- время первым, как отдаёт загрузчик данных.
Смещение j - i обрезается до [-K, K]; таблицы a_k и a_v общие для всех голов:

    e_ij = q_i . (k_j + a_k[clip(j - i)]) / sqrt(d)
    z_i  = sum_j alpha_ij (v_j + a_v[clip(j - i)])
"""
import numpy as np


def clip_index(T, K):
    pos = np.arange(T)
    return np.clip(pos[None, :] - pos[:, None], -K, K) + K      # [i, j]


class ShawAttention:
    def __init__(self, channels, heads, max_rel=8, rng=None):
        rng = rng or np.random.default_rng(0)
        self.h, self.d, self.K = heads, channels // heads, max_rel
        s = channels ** -0.5
        self.Wq, self.Wk, self.Wv, self.Wo = (
            rng.normal(0, s, (channels, channels)) for _ in range(4))
        self.ak = rng.normal(0, self.d ** -0.5, (2 * max_rel + 1, self.d))
        self.av = rng.normal(0, self.d ** -0.5, (2 * max_rel + 1, self.d))

    def _heads(self, y):
        T, B, _ = y.shape
        return y.reshape(T, B * self.h, self.d)

    def __call__(self, x, observed=None, causal=True):
        """observed [T, B] bool: False -- пропуск в данных, такой шаг не виден никому.
        Если шагу не видно ничего, его ответ равен нулю (до Wo)."""
        T, B, C = x.shape
        q = self._heads(x @ self.Wq)
        k = self._heads(x @ self.Wk)
        v = self._heads(x @ self.Wv)
        idx = clip_index(T, self.K)

        e = np.einsum("ind,jnd->nij", q, k)
        # q . a_k для всех 2K+1 смещений сразу, потом выбираем нужное
        qa = np.einsum("ind,rd->nir", q, self.ak)
        e = e + np.take_along_axis(qa, np.broadcast_to(idx, (B * self.h, T, T)), axis=2)
        e = e / np.sqrt(self.d)

        ok = np.ones((B * self.h, T, T), bool)
        if causal:
            ok &= np.tri(T, dtype=bool)
        if observed is not None:
            # ось B*h: номер примера меняется медленнее номера головы
            ok &= np.repeat(observed.T, self.h, axis=0)[:, None, :]

        top = np.where(ok, e, -np.inf).max(-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        w = np.exp(np.where(ok, e, -np.inf) - top)
        total = w.sum(-1, keepdims=True)
        w = w / np.where(total == 0, 1.0, total)

        z = np.einsum("nij,jnd->ind", w, v)
        # собираем веса по одинаковым смещениям: [n, i, 2K+1]
        bucket = np.zeros((B * self.h, T, 2 * self.K + 1))
        for r in range(2 * self.K + 1):
            bucket[:, :, r] = (w * (idx == r)).sum(-1)
        z = z + np.einsum("nir,rd->ind", bucket, self.av)
        return z.reshape(T, B, C) @ self.Wo


class Forecaster:
    def __init__(self, features, channels=16, heads=4, horizon=3, seed=0):
        rng = np.random.default_rng(seed)
        self.W_in = rng.normal(0, features ** -0.5, (features, channels))
        self.att = ShawAttention(channels, heads, rng=rng)
        self.W_out = rng.normal(0, channels ** -0.5, (channels, horizon))

    def predict(self, x, observed=None):
        """x [T, B, F] -> прогноз [B, horizon] по последнему шагу"""
        filled = x if observed is None else np.where(observed[..., None], x, 0.0)
        h = np.tanh(filled @ self.W_in)
        h = h + self.att(h, observed)
        return h[-1] @ self.W_out


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    x = np.cumsum(rng.normal(size=(24, 3, 2)), axis=0)
    obs = rng.random((24, 3)) > 0.2
    print(Forecaster(2).predict(x, obs))
