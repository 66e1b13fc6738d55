"""药物-靶标亲和力预测：蛋白质残基对药物原子做交叉注意力。

参考 Graph-DTA / DrugBAN 的写法，为省显存把 batch 和 head 合并后用 bmm。
"""
import torch
import torch.nn as nn


class CrossBMM(nn.Module):
    """prot (B, Lp, d) 查询, drug (B, La, d) 键和值

    drug_pad: (B, La) bool, True 表示填充原子，不参与注意力
    """

    def __init__(self, d, n_heads, dropout=0.1):
        super().__init__()
        self.h = n_heads
        self.dk = d // n_heads
        self.w_q = nn.Linear(d, d)
        self.w_k = nn.Linear(d, d)
        self.w_v = nn.Linear(d, d)
        self.fc = nn.Linear(d, d)
        self.drop = nn.Dropout(dropout)

    def fold(self, x):
        # (B, L, h*dk) -> (B*h, L, dk)
        B, L, _ = x.shape
        x = x.view(B, L, self.h, self.dk).transpose(1, 2)
        return x.reshape(B * self.h, L, self.dk)

    def forward(self, prot, drug, drug_pad=None):
        B, Lp, d = prot.shape
        q, k, v = self.fold(self.w_q(prot)), self.fold(self.w_k(drug)), self.fold(self.w_v(drug))
        s = torch.bmm(q, k.transpose(1, 2)) / (self.dk ** 0.5)
        if drug_pad is not None:
            m = drug_pad.unsqueeze(1).expand(-1, Lp, -1)
            m = m.repeat(self.h, 1, 1)
            s = s.masked_fill(m, -1e9)
        p = torch.softmax(s, dim=2)
        o = torch.bmm(self.drop(p), v)
        o = o.view(B, self.h, Lp, self.dk).transpose(1, 2).reshape(B, Lp, d)
        return self.fc(o)


class DTA(nn.Module):
    """输出 pKd"""

    def __init__(self, n_aa=26, n_atom=44, d=32, heads=4):
        super().__init__()
        self.aa = nn.Embedding(n_aa, d, padding_idx=0)
        self.atom = nn.Embedding(n_atom, d, padding_idx=0)
        self.conv = nn.Conv1d(d, d, 5, padding=2)
        self.cross = CrossBMM(d, heads)
        self.norm = nn.LayerNorm(d)
        self.mlp = nn.Sequential(nn.Linear(d, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1))

    def forward(self, seq, atoms):
        p = self.aa(seq)
        p = p + self.conv(p.transpose(1, 2)).transpose(1, 2).relu()
        x = self.norm(p + self.cross(p, self.atom(atoms), atoms.eq(0)))
        real = seq.ne(0).unsqueeze(-1)
        x = (x * real).sum(1) / real.sum(1).clamp(min=1)
        return self.mlp(x).squeeze(-1)


def concordance(y, f):
    """CI 指标"""
    dy, df = y[:, None] - y[None], f[:, None] - f[None]
    pos = dy > 0
    return ((df > 0).float() + 0.5 * (df == 0).float())[pos].mean()
