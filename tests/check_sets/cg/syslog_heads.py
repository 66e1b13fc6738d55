"""시스템 로그 템플릿 분류기.

메시지는 토큰 열이다. 작은 인코더가 이를 하나의 벡터로 모은다. 어텐션 헤드는 각각
독립된 작은 모듈이므로 헤드 하나를 쉽게 제거(pruning)할 수 있다. 학습과 체크포인트는
평소처럼 ``parameters()`` / ``state_dict()`` 를 거친다.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    def __init__(self, dim, size):
        super().__init__()
        self.q = nn.Linear(dim, size, bias=False)
        self.k = nn.Linear(dim, size, bias=False)
        self.v = nn.Linear(dim, size, bias=False)
        self.size = size

    def forward(self, x, pad):
        s = self.q(x) @ self.k(x).transpose(1, 2) / self.size ** 0.5
        s = s.masked_fill(pad[:, None, :], float("-inf"))
        return F.softmax(s, dim=-1) @ self.v(x)


class MultiHead(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.heads = [Head(dim, dim // n_heads) for _ in range(n_heads)]
        self.mix = nn.Linear(dim, dim)

    def forward(self, x, pad):
        return self.mix(torch.cat([h(x, pad) for h in self.heads], dim=-1))


class SyslogClassifier(nn.Module):
    PAD = 0

    def __init__(self, vocab=1000, dim=32, n_heads=4, n_templates=40, max_len=64):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=self.PAD)
        self.pos = nn.Embedding(max_len, dim)
        self.ln1 = nn.LayerNorm(dim)
        self.mha = MultiHead(dim, n_heads)
        self.ln2 = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
        self.cls = nn.Linear(dim, n_templates)

    def forward(self, tokens):
        pad = tokens.eq(self.PAD)
        x = self.tok(tokens) + self.pos.weight[: tokens.size(1)]
        x = x + self.mha(self.ln1(x), pad)
        x = x + self.ff(self.ln2(x))
        x = x.masked_fill(pad.unsqueeze(-1), 0.0).sum(1) / (~pad).sum(1, keepdim=True)
        return self.cls(x)


def train_step(model, optimizer, tokens, labels):
    model.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
    return loss.item()
