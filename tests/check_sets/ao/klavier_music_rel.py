"""Piano continuation, Music Transformer style (Huang et al. 2018), events from MAESTRO."""
import math
import torch
from torch import nn
from torch.nn import functional as F

N_EVENTS = 388  # note on, note off, time shift, velocity


class RelativeGlobalAttention(nn.Module):
    """
    Causal self-attention with relative position embeddings.

    Er[max_len - 1 - t] is the embedding for "t events ago", so the last row of Er
    stands for the event itself. The skew trick avoids an L x L x d tensor.
    """

    def __init__(self, d_model, num_heads, max_len=1024, dropout=0.1):
        super().__init__()
        d_head, rest = divmod(d_model, num_heads)
        if rest:
            raise ValueError("incompatible `d_model` and `num_heads`")
        self.max_len = max_len
        self.num_heads = num_heads
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.query = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(max_len, d_head))

    def forward(self, x):
        batch, L, _ = x.shape
        if L > self.max_len:
            raise ValueError("sequence length exceeds model capacity")
        k_t = self.key(x).reshape(batch, L, self.num_heads, -1).permute(0, 2, 3, 1)
        v = self.value(x).reshape(batch, L, self.num_heads, -1).transpose(1, 2)
        q = self.query(x).reshape(batch, L, self.num_heads, -1).transpose(1, 2)
        Er_t = self.Er[self.max_len - L:].transpose(0, 1)
        Srel = self.skew(torch.matmul(q, Er_t))
        attn = (torch.matmul(q, k_t) + Srel) / math.sqrt(q.size(-1))
        visible = torch.tril(torch.ones(L, L, device=x.device)).bool()
        attn = attn.masked_fill(~visible, float("-inf"))
        attn = F.softmax(attn, dim=-1)
        attn = self.dropout(attn)
        out = torch.matmul(attn, v).transpose(1, 2)
        return out.reshape(batch, L, -1)

    @staticmethod
    def skew(QEr):
        padded = F.pad(QEr, (1, 0))
        b, h, rows, cols = padded.shape
        return padded.reshape(b, h, cols, rows)[:, :, 1:, :]


class Takt(nn.Module):
    def __init__(self, d_model, num_heads, max_len, p):
        super().__init__()
        self.rga = RelativeGlobalAttention(d_model, num_heads, max_len, p)
        self.mix = nn.Linear(d_model, d_model)
        self.a, self.b = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_model * 2), nn.ReLU(), nn.Linear(d_model * 2, d_model))
        self.drop = nn.Dropout(p)

    def forward(self, x):
        x = self.a(x + self.drop(self.mix(self.rga(x))))
        return self.b(x + self.drop(self.ff(x)))


class PianoModel(nn.Module):
    def __init__(self, d_model=128, num_heads=4, layers=4, max_len=1024, p=0.1):
        super().__init__()
        self.emb = nn.Embedding(N_EVENTS, d_model)
        self.takte = nn.ModuleList([Takt(d_model, num_heads, max_len, p) for _ in range(layers)])
        self.out = nn.Linear(d_model, N_EVENTS)

    def forward(self, ev):
        x = self.emb(ev) * math.sqrt(self.emb.embedding_dim)
        for t in self.takte:
            x = t(x)
        return self.out(x)

    @torch.no_grad()
    def weiterspielen(self, ev, n, temp=1.0):
        for _ in range(n):
            p = (self(ev[:, -256:])[:, -1] / temp).softmax(-1)
            ev = torch.cat([ev, torch.multinomial(p, 1)], 1)
        return ev
