"""SASRec: Self-Attentive Sequential Recommendation (ICDM 2018) 재현 코드.

입력 시퀀스는 왼쪽에 0 으로 패딩한다. 아이템 i 는 자기 자신과 그 이전의
실제 아이템만 본다. 패딩 위치의 행은 (softmax 가 NaN 이 되지 않도록)
자기 자신만 보게 하고, 출력에서 0 으로 지운다.
"""
import torch
from torch import nn


class PointWiseFFN(nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(d, d, 1), nn.ReLU(), nn.Dropout(p), nn.Conv1d(d, d, 1))

    def forward(self, x):
        return x + self.net(x.transpose(1, 2)).transpose(1, 2)


class SASRecLayer(nn.Module):
    def __init__(self, d, heads, p):
        super().__init__()
        self.heads = heads
        self.ln_q, self.ln_f = nn.LayerNorm(d, eps=1e-8), nn.LayerNorm(d, eps=1e-8)
        self.wq, self.wk, self.wv = nn.Linear(d, d), nn.Linear(d, d), nn.Linear(d, d)
        self.ffn = PointWiseFFN(d, p)
        self.drop = nn.Dropout(p)

    def forward(self, x, allowed):
        b, n, d = x.shape
        hd = d // self.heads
        query = self.ln_q(x)                       # 논문 구현처럼 query 만 정규화
        q = self.wq(query).view(b, n, self.heads, hd)
        k = self.wk(x).view(b, n, self.heads, hd)
        v = self.wv(x).view(b, n, self.heads, hd)
        att = torch.einsum("bihd,bjhd->bhij", q, k) * hd ** -0.5
        att = att.masked_fill(~allowed[:, None], float("-inf"))
        att = self.drop(att.softmax(dim=-1))
        out = torch.einsum("bhij,bjhd->bihd", att, v).reshape(b, n, d)
        return self.ffn(self.ln_f(query + out))


class SASRec(nn.Module):
    def __init__(self, n_items=100, d=24, heads=2, layers=2, maxlen=20, p=0.2):
        super().__init__()
        self.item = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.pos = nn.Embedding(maxlen, d)
        self.layers = nn.ModuleList([SASRecLayer(d, heads, p) for _ in range(layers)])
        self.last = nn.LayerNorm(d, eps=1e-8)
        self.drop = nn.Dropout(p)
        self.d = d

    def encode(self, seq):
        n = seq.shape[1]
        real = seq != 0
        x = self.item(seq) * self.d ** 0.5 + self.pos(torch.arange(n, device=seq.device))
        x = self.drop(x) * real[..., None]
        i = torch.arange(n, device=seq.device)
        causal = i[None, :] <= i[:, None]
        allowed = causal[None] & real[:, None, :]
        allowed = allowed | torch.eye(n, dtype=torch.bool, device=seq.device)
        for layer in self.layers:
            x = layer(x, allowed) * real[..., None]
        return self.last(x) * real[..., None]

    def forward(self, seq, pos, neg):
        """다음 아이템(pos)과 음성 샘플(neg)의 로짓."""
        h = self.encode(seq)
        return (h * self.item(pos)).sum(-1), (h * self.item(neg)).sum(-1)

    @torch.no_grad()
    def predict(self, seq, candidates):
        return self.encode(seq)[:, -1] @ self.item(candidates).T
