"""Document reader: packed long inputs with several documents in one sequence.

To avoid waste, short documents are packed one behind the other; ``doc_id`` tells
which document a token belongs to.  Attention is causal and stays inside the
document: a token sees the tokens of its own document up to itself, and nothing
of the other documents.
"""
import torch
from torch import Tensor, nn


class PackedCausalAttention(nn.Module):
    """Multi-head attention over packed documents."""

    def __init__(self, dim: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def visibility(self, doc_id: Tensor) -> Tensor:
        """[B, L] -> [B, 1, L, L], True where a query may look."""
        length = doc_id.shape[1]
        same = doc_id[:, :, None] == doc_id[:, None, :]
        past = torch.ones(length, length, dtype=torch.bool, device=doc_id.device).tril()
        return (same & past)[:, None]

    def forward(self, x: Tensor, doc_id: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.in_proj(x).split(c, dim=-1)
        q = q.view(b, n, self.heads, self.head_dim).transpose(1, 2)
        k = k.view(b, n, self.heads, self.head_dim).transpose(1, 2)
        v = v.view(b, n, self.heads, self.head_dim).transpose(1, 2)

        scores = q @ k.mT / self.head_dim ** 0.5
        scores = scores.masked_fill(~self.visibility(doc_id), -10.0)
        probs = scores.softmax(dim=-1)
        y = (probs @ v).transpose(1, 2).reshape(b, n, c)
        return self.out_proj(y)


class ReaderBlock(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(dim)
        self.attn = PackedCausalAttention(dim, heads)
        self.ln_2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x: Tensor, doc_id: Tensor) -> Tensor:
        x = x + self.attn(self.ln_1(x), doc_id)
        return x + self.mlp(self.ln_2(x))


def pack(docs: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Documents of [L_i, dim] to one packed row and its document ids."""
    ids = torch.cat([torch.full((len(d),), i) for i, d in enumerate(docs)])
    return torch.cat(docs)[None], ids[None]


if __name__ == "__main__":
    x, ids = pack([torch.randn(n, 64) for n in (30, 7, 50)])
    print(ReaderBlock()(x, ids).shape)
