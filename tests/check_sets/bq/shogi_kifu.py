# 棋譜言語モデル（将棋の指し手を一手ずつ予測する）
# 注意: 回転位置埋め込みは隣接ペア方式 (GPT-J と同じ)、KVヘッドは共有 (GQA)
from __future__ import annotations

import torch
import torch.nn as nn

FILES, RANKS, HANDS = 9, 9, 7
N_MOVES = FILES * RANKS * (FILES * RANKS + HANDS) * 2   # 成り/不成りを含む


def freqs_for(start: int, n: int, d: int, theta: float = 10_000.0, device=None) -> torch.Tensor:
    """複素数の回転子 [n, d/2]"""
    inv = 1.0 / theta ** (torch.arange(0, d, 2, device=device).float() / d)
    t = torch.arange(start, start + n, device=device).float()
    return torch.polar(torch.ones(n, d // 2, device=device), torch.outer(t, inv))


def rotate(x: torch.Tensor, cis: torch.Tensor) -> torch.Tensor:
    """x: [B, T, 頭, d]"""
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(z * cis[None, :, None, :]).flatten(-2).type_as(x)


class KifuCache:
    """固定長のKVキャッシュ。len は今までに入れた手数。"""

    def __init__(self, batch: int, limit: int, kv_heads: int, d: int):
        self.k = torch.zeros(batch, limit, kv_heads, d)
        self.v = torch.zeros(batch, limit, kv_heads, d)
        self.len = 0

    def push(self, k: torch.Tensor, v: torch.Tensor):
        n = k.shape[1]
        self.k[:, self.len:self.len + n] = k
        self.v[:, self.len:self.len + n] = v
        self.len += n
        return self.k[:, :self.len], self.v[:, :self.len]


class MoveAttention(nn.Module):
    """因果的な注意。クエリ頭 h は KV頭 h // (n_q / n_kv) を使う。"""

    def __init__(self, dim: int = 64, n_q: int = 8, n_kv: int = 2):
        super().__init__()
        self.n_q, self.n_kv, self.d = n_q, n_kv, dim // n_q
        self.wq = nn.Linear(dim, n_q * self.d, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.d, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.d, bias=False)
        self.wo = nn.Linear(n_q * self.d, dim, bias=False)

    def forward(self, x: torch.Tensor, cache: KifuCache | None = None) -> torch.Tensor:
        b, t, _ = x.shape
        start = 0 if cache is None else cache.len
        cis = freqs_for(start, t, self.d, device=x.device)
        q = rotate(self.wq(x).view(b, t, self.n_q, self.d), cis)
        k = rotate(self.wk(x).view(b, t, self.n_kv, self.d), cis)
        v = self.wv(x).view(b, t, self.n_kv, self.d)
        if cache is not None:
            k, v = cache.push(k, v)

        q = q.view(b, t, self.n_kv, self.n_q // self.n_kv, self.d)
        s = torch.einsum("btgrd,bsgd->bgrts", q, k) * self.d ** -0.5
        qpos = torch.arange(start, start + t, device=x.device)
        kpos = torch.arange(k.shape[1], device=x.device)
        s = s.masked_fill(kpos[None, :] > qpos[:, None], float("-inf"))
        p = torch.softmax(s.float(), dim=-1).type_as(v)
        o = torch.einsum("bgrts,bsgd->btgrd", p, v)
        return self.wo(o.reshape(b, t, -1))


class KifuModel(nn.Module):
    def __init__(self, vocab: int = 2048, dim: int = 64, layers: int = 2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.att = nn.ModuleList([MoveAttention(dim) for _ in range(layers)])
        self.ffn = nn.ModuleList(
            [nn.Sequential(nn.RMSNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
             for _ in range(layers)])
        self.norm = nn.ModuleList([nn.RMSNorm(dim) for _ in range(layers + 1)])

    def forward(self, moves, caches=None):
        h = self.emb(moves)
        for i, (a, f) in enumerate(zip(self.att, self.ffn)):
            h = h + a(self.norm[i](h), None if caches is None else caches[i])
            h = h + f(h)
        return self.norm[-1](h) @ self.emb.weight.T
