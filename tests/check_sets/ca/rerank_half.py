"""Cross-encoder head of the document re-ranker, served in half precision.

``RerankService`` holds one attention block whose weights are float16, because the box
has little memory.  Logits are turned into probabilities in float32.  Each document
comes with ``n_tokens``; tokens after that are padding and are ignored.
"""
import torch
from torch import nn


class RerankAttention(nn.Module):
    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.heads, self.dim_head = heads, dim // heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, keep):
        b, n, dim = x.shape
        qkv = self.to_qkv(x).reshape(b, n, 3, self.heads, self.dim_head)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        logits = torch.matmul(q * self.dim_head ** -0.5, k.transpose(-1, -2))
        logits = logits.masked_fill(~keep[:, None, None, :], -1e9)
        attn = torch.softmax(logits, dim=-1, dtype=torch.float32).to(v.dtype)
        y = torch.matmul(attn, v)
        y = y.transpose(1, 2).reshape(b, n, dim)
        return self.to_out(y)


class RerankService:
    """score(tokens, n_tokens) -> one number per document"""

    def __init__(self, dim=32, heads=4, dtype=torch.float16, seed=0):
        gen_state = torch.random.get_rng_state()
        torch.manual_seed(seed)
        self.block = RerankAttention(dim, heads).to(dtype).eval()
        self.readout = nn.Linear(dim, 1).to(dtype).eval()
        torch.random.set_rng_state(gen_state)
        self.dtype = dtype

    @torch.no_grad()
    def score(self, tokens, n_tokens):
        tokens = tokens.to(self.dtype)
        keep = torch.arange(tokens.shape[1]) < n_tokens[:, None]
        h = tokens + self.block(tokens, keep)
        first = h[:, 0]
        return self.readout(first).squeeze(-1).float()

    __call__ = score


def rank(service, tokens, n_tokens):
    """Indices of the documents, best first."""
    return torch.argsort(service(tokens, n_tokens), descending=True)
