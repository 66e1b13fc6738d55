"""
分块注意力的纯 NumPy 教学实现（FlashAttention-2 的前向与反向）。

形状:  q [L, H, D]   k, v [S, G, D]   H 必须是 G 的整数倍
因果:  查询对齐到右下角, 即第 i 个查询可以看到 j <= i + S - L 的键
全部累加都用 float64。
"""
import numpy as np

NEG = -np.inf


class TiledAttention:
    def __init__(self, causal=True, bq=16, bk=32, scale=None):
        self.causal = causal
        self.bq, self.bk = bq, bk
        self.scale = scale

    # ---------------------------------------------------------------- 前向
    def forward(self, q, k, v):
        """返回 (out [L,H,D], lse [H,L])；没有任何键的行输出 0，lse = -inf"""
        L, H, D = q.shape
        S, G, _ = k.shape
        assert H % G == 0
        sc = self.scale if self.scale is not None else D ** -0.5
        off = S - L
        out = np.zeros((L, H, D))
        lse = np.full((H, L), NEG)
        for h in range(H):
            g = h // (H // G)                       # 该查询头所属的键值组
            for i0 in range(0, L, self.bq):
                qi = q[i0:i0 + self.bq, h].astype(np.float64) * sc
                n = qi.shape[0]
                acc = np.zeros((n, D))
                m = np.full(n, NEG)
                z = np.zeros(n)
                for j0 in range(0, S, self.bk):
                    if self.causal and j0 > i0 + n - 1 + off:
                        break                       # 整块都在未来
                    kj = k[j0:j0 + self.bk, g].astype(np.float64)
                    vj = v[j0:j0 + self.bk, g].astype(np.float64)
                    s = qi @ kj.T
                    if self.causal:
                        row = np.arange(i0, i0 + n)[:, None] + off
                        col = np.arange(j0, j0 + kj.shape[0])[None, :]
                        s = np.where(col <= row, s, NEG)
                    m_new = np.maximum(m, s.max(1))
                    safe = np.where(np.isneginf(m_new), 0.0, m_new)
                    p = np.exp(s - safe[:, None])
                    r = np.exp(m - safe)            # 旧累加值的修正
                    z = z * r + p.sum(1)
                    acc = acc * r[:, None] + p @ vj
                    m = m_new
                ok = z > 0
                out[i0:i0 + n, h][ok] = acc[ok] / z[ok, None]
                lse[h, i0:i0 + n][ok] = m[ok] + np.log(z[ok])
        return out.astype(q.dtype), lse

    # ---------------------------------------------------------------- 反向
    def backward(self, q, k, v, out, lse, dout):
        L, H, D = q.shape
        S, G, _ = k.shape
        sc = self.scale if self.scale is not None else D ** -0.5
        dq, dk, dv = (np.zeros(t.shape) for t in (q, k, v))
        delta = (out * dout).sum(-1)                # [L, H]
        keep = np.ones((L, S), bool)
        if self.causal:
            keep = np.tri(L, S, S - L, dtype=bool)
        for h in range(H):
            g = h // (H // G)
            for j0 in range(0, S, self.bk):
                J = slice(j0, j0 + self.bk)
                s = (q[:, h] @ k[J, g].T) * sc
                p = np.where(keep[:, J], np.exp(s - np.where(np.isneginf(lse[h]), 0, lse[h])[:, None]), 0.0)
                dv[J, g] += p.T @ dout[:, h]
                ds = p * (dout[:, h] @ v[J, g].T - delta[:, h, None]) * sc
                dq[:, h] += ds @ k[J, g]
                dk[J, g] += ds.T @ q[:, h]
        return dq, dk, dv


def 自检(seed=0):
    r = np.random.default_rng(seed)
    q, k, v = r.normal(size=(5, 4, 8)), r.normal(size=(9, 2, 8)), r.normal(size=(9, 2, 8))
    t = TiledAttention(bq=2, bk=3)
    o, lse = t.forward(q, k, v)
    do = r.normal(size=o.shape)
    dq, _, _ = t.backward(q, k, v, o, lse, do)
    e = np.zeros_like(q)
    e[1, 2, 3] = 1e-6
    num = ((t.forward(q + e, k, v)[0] - t.forward(q - e, k, v)[0]) * do).sum() / 2e-6
    return abs(num - dq[1, 2, 3])


if __name__ == "__main__":
    print("梯度误差", 自检())
