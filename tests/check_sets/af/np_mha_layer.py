"""nn-from-scratch / layers / multi head attention.   Forward + backward, only NumPy."""
import numpy as np


class Param:
    def __init__(self, value):
        self.value = value
        self.grad = np.zeros_like(value)


class MHALayer:
    """
    x : (B, T, D) -> (B, T, D)

    Weights are stored per head: Wq, Wk, Wv have shape (H, D, d), Wo has shape (H, d, D), so the
    sum over heads in the last einsum replaces the usual concat + linear.
    """

    def __init__(self, D, H, causal=False, rng=None):
        rng = rng or np.random.default_rng(0)
        assert D % H == 0
        self.H, self.d = H, D // H
        lim = np.sqrt(3.0 / D)
        self.Wq = Param(rng.uniform(-lim, lim, (H, D, self.d)))
        self.Wk = Param(rng.uniform(-lim, lim, (H, D, self.d)))
        self.Wv = Param(rng.uniform(-lim, lim, (H, D, self.d)))
        self.Wo = Param(rng.uniform(-lim, lim, (H, self.d, D)))
        self.bo = Param(np.zeros(D))
        self.causal = causal

    @property
    def params(self):
        return [self.Wq, self.Wk, self.Wv, self.Wo, self.bo]

    def forward(self, x, keep=None):
        """keep: optional (B, T) bool, True = real position."""
        T = x.shape[1]
        q = np.einsum("btD,hDd->hbtd", x, self.Wq.value)
        k = np.einsum("btD,hDd->hbtd", x, self.Wk.value)
        v = np.einsum("btD,hDd->hbtd", x, self.Wv.value)
        q = q / np.sqrt(self.d)
        a = np.einsum("hbqd,hbkd->hbqk", q, k)
        vis = np.ones((1, 1, T, T), bool)
        if self.causal:
            vis = vis & np.tri(T, dtype=bool)
        if keep is not None:
            vis = vis & keep[None, :, None, :]
        a = np.where(vis, a, -1e30)
        a = a - a.max(-1, keepdims=True)
        np.exp(a, out=a)
        a /= a.sum(-1, keepdims=True)
        o = np.einsum("hbqk,hbkd->hbqd", a, v)
        y = np.einsum("hbqd,hdD->bqD", o, self.Wo.value) + self.bo.value
        self.saved = x, q, k, v, a, o
        return y

    def backward(self, dy):
        x, q, k, v, a, o = self.saved
        self.bo.grad += dy.sum((0, 1))
        self.Wo.grad += np.einsum("hbqd,bqD->hdD", o, dy)
        do = np.einsum("bqD,hdD->hbqd", dy, self.Wo.value)
        dv = np.einsum("hbqk,hbqd->hbkd", a, do)
        da = np.einsum("hbqd,hbkd->hbqk", do, v)
        # sum_k a_k da_k == <do, o>
        ds = a * (da - (do * o).sum(-1, keepdims=True))
        dk = np.einsum("hbqk,hbqd->hbkd", ds, q)
        dq = np.einsum("hbqk,hbkd->hbqd", ds, k) / np.sqrt(self.d)
        dx = np.zeros_like(x)
        for W, g in ((self.Wq, dq), (self.Wk, dk), (self.Wv, dv)):
            W.grad += np.einsum("btD,hbtd->hDd", x, g)
            dx += np.einsum("hbtd,hDd->btD", g, W.value)
        return dx


def numeric_check(layer, x, dy, eps=1e-6):
    layer.forward(x)
    dx = layer.backward(dy)
    i = (0,) * x.ndim
    xp, xm = x.copy(), x.copy()
    xp[i] += eps
    xm[i] -= eps
    num = ((layer.forward(xp) - layer.forward(xm)) * dy).sum() / (2 * eps)
    return abs(num - dx[i])


if __name__ == "__main__":
    r = np.random.default_rng(1)
    print(numeric_check(MHALayer(12, 3, causal=True), r.normal(size=(2, 5, 12)), r.normal(size=(2, 5, 12))))
