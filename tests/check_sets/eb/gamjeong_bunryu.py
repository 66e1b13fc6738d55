"""감정 분류: 트랜스포머 인코더 한 층 + 평균 풀링 (스터디 5주차 정답 코드).

위치 인코딩은 논문 그대로:
    PE[pos, 2i]   = sin(pos / 10000^(2i/d))
    PE[pos, 2i+1] = cos(pos / 10000^(2i/d))
패딩 토큰은 어떤 질의에서도 키로 쓰이지 않는다. 드롭아웃 없음.
"""
import math
import torch
import torch.nn as nn


def pos_enc(length, d):
    pos = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    i = torch.arange(0, d, 2, dtype=torch.float32)
    rate = torch.exp(-math.log(10000.0) * (2 * i) / d)
    pe = torch.zeros(length, d)
    pe[:, 0::2] = torch.sin(pos * rate)
    pe[:, 1::2] = torch.cos(pos * rate)
    return pe


class Bunryu(nn.Module):
    def __init__(self, vocab, d=32, heads=4, classes=2, maxlen=128):
        super().__init__()
        self.heads, self.hd = heads, d // heads
        self.emb = nn.Embedding(vocab, d)
        self.register_buffer("pe", pos_enc(maxlen, d))
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.cls = nn.Linear(d, classes)

    def forward(self, ids):
        """ids (B, L) long, 0 = 패딩 (문장마다 실제 토큰이 하나 이상) -> 로짓 (B, classes)"""
        B, L = ids.shape
        real = ids.ne(0)
        x = self.emb(ids) * math.sqrt(self.emb.embedding_dim) + self.pe[:L]
        q, k, v = (f(x).view(B, L, self.heads, self.hd).transpose(1, 2) for f in (self.q, self.k, self.v))
        s = q @ k.transpose(-2, -1) / math.sqrt(self.hd)
        s = s.masked_fill(~real.unsqueeze(1).unsqueeze(3), -1e9)
        y = (s.softmax(-1) @ v).transpose(1, 2).reshape(B, L, -1)
        x = self.ln1(x + self.o(y))
        x = self.ln2(x + self.ff(x))
        w = real.unsqueeze(-1).float()
        return self.cls((x * w).sum(1) / w.sum(1))
