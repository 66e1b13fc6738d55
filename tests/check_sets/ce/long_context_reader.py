"""Cross-attention over a long document in chunks that are merged by log-sum-exp.

For the reading-comprehension project: a short question attends to thousands of
document tokens. Memory is bounded by walking over chunks of the document; every chunk
gives a partial output and the log-sum-exp of its logits, and two partial results are
combined with the weights exp(lse_a - lse), exp(lse_b - lse). The result is that of
ordinary multi-head scaled dot-product attention over the whole document.

`doc_ok` [B, S] is True at real document tokens; every document starts with a real
token and padding is at the end.
"""
import math

import torch
import torch.nn as nn

NEG = -1e30


def chunk_attention(q, k, v, ok, scale):
    """Partial attention on one chunk. q [N, L, d]; k, v [N, C, d]; ok [N, C]."""
    s = torch.bmm(q, k.transpose(1, 2)) * scale
    s = s.masked_fill(~ok.unsqueeze(1), NEG)
    m = s.amax(dim=-1, keepdim=True)
    e = torch.exp(s - m)
    total = e.sum(dim=-1, keepdim=True)
    # the log-sum-exp goes out in bits, like the kernel we benchmark against
    lse = (m + torch.log(total)) / math.log(2.0)
    return torch.bmm(e / total, v), lse


def merge(out_a, lse_a, out_b, lse_b):
    lse = torch.logaddexp(lse_a, lse_b)
    out = out_a * torch.exp(lse_a - lse) + out_b * torch.exp(lse_b - lse)
    return out, lse


class DocumentReader(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, chunk: int = 16):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def fold(self, x):
        # [B, T, H * d] -> [H * B, T, d]
        B, T, D = x.shape
        x = x.view(B, T, self.heads, D // self.heads)
        return x.permute(2, 0, 1, 3).reshape(self.heads * B, T, -1)

    def unfold(self, x, B):
        H, (_, T, d) = self.heads, x.shape
        return x.view(H, B, T, d).permute(1, 2, 0, 3).reshape(B, T, H * d)

    def forward(self, question: torch.Tensor, document: torch.Tensor, doc_ok: torch.Tensor):
        B, S = document.shape[:2]
        q = self.fold(self.q(self.norm(question)))
        k = self.fold(self.k(document))
        v = self.fold(self.v(document))
        ok = doc_ok.repeat_interleave(self.heads, dim=0)
        scale = 1.0 / math.sqrt(k.shape[1])
        out, lse = None, None
        for a in range(0, S, self.chunk):
            part = slice(a, a + self.chunk)
            o, l = chunk_attention(q, k[:, part], v[:, part], ok[:, part], scale)
            out, lse = (o, l) if out is None else merge(out, lse, o, l)
        return question + self.o(self.unfold(out, B))


if __name__ == "__main__":
    torch.manual_seed(0)
    ok = torch.arange(50)[None] < torch.tensor([[50], [23], [37]])
    print(DocumentReader()(torch.randn(3, 6, 32), torch.randn(3, 50, 32), ok).shape)
