"""写唐诗的小模型（课程大作业）。

字级别的 GPT：输入前面的字，预测下一个字。五言/七言都可以。
多头因果自注意力：每个位置只能看到自己和之前的字，每个头取特征维的一段。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class 配置:
    vocab = 3000
    dim = 64
    heads = 4
    layers = 2
    max_len = 64
    dropout = 0.1


class CausalAttention(nn.Module):
    def __init__(self, dim, heads, max_len, dropout):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.dropout = dropout
        # 下三角：True 表示可以看
        self.register_buffer("tril", torch.tril(torch.ones(max_len, max_len, dtype=torch.bool)))

    def forward(self, x):
        B, L, D = x.shape
        d = D // self.heads
        # 分头
        q = self.query(x).view(B, self.heads, L, d)
        k = self.key(x).view(B, self.heads, L, d)
        v = self.value(x).view(B, self.heads, L, d)

        score = q @ k.transpose(-2, -1) / d ** 0.5
        score = score.masked_fill(~self.tril[:L, :L], float("-inf"))
        att = F.softmax(score, dim=-1)
        att = F.dropout(att, self.dropout, training=self.training)

        out = att @ v                                   # (B, heads, L, d)
        out = out.transpose(1, 2).reshape(B, L, D)      # 合并各头
        return self.proj(out)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1 = nn.LayerNorm(cfg.dim)
        self.att = CausalAttention(cfg.dim, cfg.heads, cfg.max_len, cfg.dropout)
        self.ln2 = nn.LayerNorm(cfg.dim)
        self.mlp = nn.Sequential(nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class PoemGPT(nn.Module):
    def __init__(self, cfg=配置):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab, cfg.dim)
        self.pos = nn.Embedding(cfg.max_len, cfg.dim)
        self.blocks = nn.ModuleList([Block(cfg) for _ in range(cfg.layers)])
        self.ln = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for b in self.blocks:
            x = b(x)
        return self.head(self.ln(x))

    @torch.no_grad()
    def 作诗(self, ids, n, 温度=0.9):
        self.eval()
        for _ in range(n):
            logits = self(ids[:, -self.cfg.max_len:])[:, -1] / 温度
            nxt = torch.multinomial(F.softmax(logits, dim=-1), 1)
            ids = torch.cat([ids, nxt], dim=1)
        return ids
