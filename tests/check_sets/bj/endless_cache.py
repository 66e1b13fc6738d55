"""StreamingLLM cache, NumPy edition.

無限長の入力用。先頭 n_sink 個と直近 n_recent 個のトークンだけを残す。
RoPE の位置は「元の位置」ではなく「キャッシュ内の位置」を使う（論文どおり）。
そのため、キーは回転前の値で保存し、読むたびに回転する。
"""
import numpy as np


def rope(x, pos, base=10000.0):
    """x [..., T, d], ペアは (0,1),(2,3),...（隣り合う次元）"""
    d = x.shape[-1]
    freq = base ** (-np.arange(0, d, 2) / d)
    ang = np.asarray(pos)[:, None] * freq
    c, s = np.cos(ang), np.sin(ang)
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 0::2] * s + x[..., 1::2] * c
    return out


class EndlessCache:
    def __init__(self, heads, dim, n_sink=2, n_recent=6):
        self.h, self.d = heads, dim
        self.n_sink, self.n_recent = n_sink, n_recent
        self.k = np.zeros((heads, 0, dim))
        self.v = np.zeros((heads, 0, dim))

    @property
    def size(self):
        return self.k.shape[1]

    def _evict(self):
        # 追い出しは追加の後。現在のトークンは n_recent に含まれる。
        extra = self.size - self.n_sink - self.n_recent
        if extra > 0:
            gone = slice(self.n_sink, self.n_sink + extra)
            self.k = np.delete(self.k, gone, axis=1)
            self.v = np.delete(self.v, gone, axis=1)

    def step(self, q, k, v):
        """1 トークン: q, k, v は [heads, dim]。出力 [heads, dim]。"""
        self.k = np.concatenate([self.k, k[:, None]], axis=1)
        self.v = np.concatenate([self.v, v[:, None]], axis=1)
        self._evict()
        n = self.size
        kr = rope(self.k, np.arange(n))
        qr = rope(q[:, None], [n - 1])
        s = (qr @ kr.swapaxes(1, 2))[:, 0] / np.sqrt(self.d)
        s -= s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        return np.einsum("hs,hsd->hd", p, self.v)


class LogReader:
    """アクセスログを一行ずつ読んで次のトークンの点数を出す。"""

    def __init__(self, vocab=50, heads=2, dim=8, seed=0, **kw):
        g = np.random.default_rng(seed)
        w = heads * dim
        self.emb = g.normal(size=(vocab, w))
        self.w = {n: g.normal(size=(w, w)) / np.sqrt(w) for n in "qkvo"}
        self.cache = EndlessCache(heads, dim, **kw)
        self.shape = (heads, dim)

    def feed(self, token):
        x = self.emb[token]
        q, k, v = (np.reshape(x @ self.w[n], self.shape) for n in "qkv")
        y = x + self.cache.step(q, k, v).ravel() @ self.w["o"]
        return self.emb @ y

    def feed_all(self, tokens):
        return np.stack([self.feed(t) for t in tokens])


if __name__ == "__main__":
    r = LogReader()
    print(r.feed_all(np.arange(30) % 50).shape, r.cache.size)
