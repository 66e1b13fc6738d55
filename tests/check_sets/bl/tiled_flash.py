import numpy as np
# homework 4, "GPU programming": FlashAttention-2 forward on the CPU, tile by tile.
# Bq x Bk tiles; never more than one tile of scores in memory.


class Stats:
    """running row max m, row sum l, unnormalised output acc of one block of queries"""
    __slots__ = ("m", "l", "acc")

    def __init__(self, rows, dv):
        self.m = np.full(rows, -np.inf)
        self.l = np.zeros(rows)
        self.acc = np.zeros((rows, dv))

    def update(self, S, Vj):
        m_new = np.maximum(self.m, S.max(axis=1))
        # a row that saw no key yet has m = -inf: shift it by 0, exp(-inf) is 0 anyway
        shift = np.where(np.isneginf(m_new), 0.0, m_new)
        alpha = np.exp(self.m - shift)
        P = np.exp(S - shift[:, None])
        self.l = alpha * self.l + P.sum(axis=1)
        self.acc = alpha[:, None] * self.acc + P @ Vj
        self.m = m_new

    def finish(self):
        seen = self.l > 0
        l = np.where(seen, self.l, 1.0)
        with np.errstate(divide="ignore"):
            lse = np.where(seen, self.m + np.log(l), -np.inf)
        return self.acc / l[:, None], lse


class TiledAttention:
    """
    out, lse = TiledAttention(Bq, Bk, causal)(Q, K, V, kv_len)

    Q (Lq, d), K (Lk, d), V (Lk, dv), one head.
    causal: query i sees keys 0 .. i + Lk - Lq (aligned at the end, as in flash-attn >= 2.1);
    kv_len: only keys < kv_len are real. Rows without any key give 0 and lse = -inf.
    """

    def __init__(self, Bq=16, Bk=16, causal=False):
        self.Bq, self.Bk, self.causal = Bq, Bk, causal
        self.tiles_done = self.tiles_skipped = 0

    def __call__(self, Q, K, V, kv_len=None):
        Lq, d = Q.shape
        Lk = K.shape[0]
        kv_len = Lk if kv_len is None else kv_len
        off = Lk - Lq
        O = np.empty((Lq, V.shape[1]))
        LSE = np.empty(Lq)
        for q0 in range(0, Lq, self.Bq):
            q1 = min(q0 + self.Bq, Lq)
            Qi = Q[q0:q1] * d ** -0.5
            st = Stats(q1 - q0, V.shape[1])
            for k0 in range(0, Lk, self.Bk):
                k1 = min(k0 + self.Bk, Lk)
                if k0 >= kv_len or (self.causal and k0 > q1 - 1 + off):
                    self.tiles_skipped += 1
                    continue
                S = Qi @ K[k0:k1].T
                cols = np.arange(k0, k1)
                S = np.where(cols[None, :] < kv_len, S, -np.inf)
                if self.causal and k1 - 1 > q0 + off:          # tile crosses the diagonal
                    rows = np.arange(q0, q1)
                    S = np.where(cols[None, :] <= rows[:, None] + off, S, -np.inf)
                st.update(S, V[k0:k1])
                self.tiles_done += 1
            O[q0:q1], LSE[q0:q1] = st.finish()
        return O, LSE


def time_it(L=256, d=32):
    import time
    rng = np.random.default_rng(1)
    Q, K, V = rng.standard_normal((3, L, d))
    for B in (16, 32, 64, 128):
        att = TiledAttention(B, B, causal=True)
        t = time.perf_counter()
        att(Q, K, V)
        print(f"B={B:4d} {1e3 * (time.perf_counter() - t):7.2f} ms, skipped {att.tiles_skipped} of "
              f"{att.tiles_skipped + att.tiles_done} tiles")


if __name__ == "__main__":
    time_it()
