"""小墨：写诗用的小语言模型（课程项目）。

输入  ids (B, L)，输出 logits (B, L, vocab)，第 t 个位置预测第 t+1 个字。

* 因果注意力：位置 t 只能看到 0..t。
* 分组查询注意力：query 有 n_head 个头，key/value 只有 n_kv 个头；
  第 h 个 query 头使用第 h // (n_head // n_kv) 个 key/value 头，序列长度不变。
* 张量布局为 [batch, 长度, 头, 维]，缩放 1/sqrt(维)。
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class GQAttention(nn.Module):
    def __init__(self, dim, n_head, n_kv):
        super().__init__()
        self.n_head, self.n_kv, self.hd = n_head, n_kv, dim // n_head
        self.rep = n_head // n_kv
        self.q_proj = nn.Linear(dim, n_head * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        B, L, _ = x.shape
        q = self.q_proj(x).view(B, L, self.n_head, self.hd)
        k = self.k_proj(x).view(B, L, self.n_kv, self.hd)
        v = self.v_proj(x).view(B, L, self.n_kv, self.hd)
        # 把 key/value 的头补齐到 n_head 个
        k = k.repeat(1, self.rep, 1, 1).view(B, L, self.n_head, self.hd)
        v = v.repeat(1, self.rep, 1, 1).view(B, L, self.n_head, self.hd)

        score = torch.einsum("blhd,bmhd->bhlm", q, k) / self.hd ** 0.5
        hide = torch.triu(torch.ones(L, L, dtype=torch.bool, device=x.device), 1)
        prob = score.masked_fill(hide, float("-inf")).softmax(-1)
        y = torch.einsum("bhlm,bmhd->blhd", prob, v).reshape(B, L, -1)
        return self.o_proj(y)


class XiaoMo(nn.Module):
    def __init__(self, vocab, dim=64, n_head=8, n_kv=2, depth=2, max_len=128):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.att = nn.ModuleList(GQAttention(dim, n_head, n_kv) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(dim, 4 * dim, bias=False) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(2 * dim, dim, bias=False) for _ in range(depth))
        self.n1 = nn.ModuleList(RMSNorm(dim) for _ in range(depth))
        self.n2 = nn.ModuleList(RMSNorm(dim) for _ in range(depth))
        self.norm = RMSNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1), device=ids.device))
        for a, u, d, n1, n2 in zip(self.att, self.up, self.down, self.n1, self.n2):
            x = x + a(n1(x))
            g, h = u(n2(x)).chunk(2, -1)
            x = x + d(F.silu(g) * h)
        return self.head(self.norm(x))
