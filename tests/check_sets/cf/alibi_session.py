"""会话式解码：带 ALiBi 偏置的注意力层（NumPy 推理版）。

AlibiSession 保存一条对话的键值缓存。feed() 可以一次送入任意多个 token，
结果与一次性送入整段完全相同。偏置为 -slope_h * (i - j)，其中 i、j 为绝对位置，
只看过去和自己（因果）。

头数不是 2 的幂时，斜率按 ALiBi 论文的做法插值补齐。
"""
import math
import numpy as np


def alibi_slopes(n):
    def power_of_two(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return np.array(power_of_two(n))
    closest = 2 ** math.floor(math.log2(n))
    extra = alibi_slopes(2 * closest)[0::2][: n - closest]
    return np.concatenate([power_of_two(closest), extra])


class AlibiSession:
    def __init__(self, weights, n_heads):
        self.w = weights            # wq, wk, wv, wo: (D, D)
        self.n_heads = n_heads
        self.slopes = alibi_slopes(n_heads)
        self.clear()

    def clear(self):
        self.keys = None
        self.values = None

    @property
    def length(self):
        return 0 if self.keys is None else self.keys.shape[1]

    def _heads(self, y):
        t, d = y.shape
        return y.reshape(t, self.n_heads, d // self.n_heads).swapaxes(0, 1)

    def feed(self, x):
        """x: (T, D) 新 token 的隐状态；返回 (T, D)。"""
        past = self.length
        q = self._heads(x @ self.w["wq"])
        k = self._heads(x @ self.w["wk"])
        v = self._heads(x @ self.w["wv"])
        self.keys = k if past == 0 else np.concatenate([self.keys, k], axis=1)
        self.values = v if past == 0 else np.concatenate([self.values, v], axis=1)

        i = past + np.arange(x.shape[0])[:, None]
        j = np.arange(self.length)[None, :]
        bias = -self.slopes[:, None, None] * (i - j)
        logits = q @ self.keys.swapaxes(1, 2) / math.sqrt(q.shape[-1]) + bias
        logits = np.where(j <= i, logits, -np.inf)

        logits -= logits.max(axis=-1, keepdims=True)
        p = np.exp(logits)
        p /= p.sum(axis=-1, keepdims=True)
        ctx = (p @ self.values).swapaxes(0, 1).reshape(x.shape[0], -1)
        return ctx @ self.w["wo"]


def random_session(dim=36, n_heads=6, seed=0):
    rng = np.random.default_rng(seed)
    w = {n: rng.normal(0, dim ** -0.5, (dim, dim)) for n in ("wq", "wk", "wv", "wo")}
    return AlibiSession(w, n_heads)


if __name__ == "__main__":
    s = random_session()
    x = np.random.default_rng(1).normal(size=(10, 36))
    whole = s.feed(x)
    s.clear()
    parts = np.concatenate([s.feed(x[:7]), s.feed(x[7:])])
    print(np.abs(whole - parts).max())
