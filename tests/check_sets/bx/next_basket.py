"""Next-item model for the grocery shop (SASRec style).

Item embeddings are multiplied by sqrt(hidden) before the learned positions are
added, as in the reference implementation, so that the item part is not drowned
by the positions.  One causal self-attention block; item 0 is padding (on the
left).  The catalogue is scored with the tied, unscaled embedding table.
"""
import torch
import torch.nn.functional as F
from torch import nn


class NextBasket(nn.Module):
    def __init__(self, n_items=120, hidden=32, heads=2, max_len=20):
        super().__init__()
        self.hidden = hidden
        self.heads = heads
        self.items = nn.Embedding(n_items + 1, hidden, padding_idx=0)
        self.positions = nn.Embedding(max_len, hidden)
        self.ln_q = nn.LayerNorm(hidden)
        self.ln_f = nn.LayerNorm(hidden)
        self.w_q = nn.Linear(hidden, hidden)
        self.w_kv = nn.Linear(hidden, 2 * hidden)
        self.ffn = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))

    def embed(self, seq):
        x = self.items(seq) / self.hidden ** 0.5
        return x + self.positions.weight[: seq.size(1)]

    def block(self, x, seq):
        b, n, _ = x.shape
        shape = (b, n, self.heads, self.hidden // self.heads)
        q = self.w_q(self.ln_q(x)).view(shape).transpose(1, 2)
        k, v = (t.view(shape).transpose(1, 2) for t in self.w_kv(x).chunk(2, -1))
        causal = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        # a padded position still sees itself, which keeps its row finite
        eye = torch.eye(n, dtype=torch.bool, device=x.device)
        allow = (causal & (seq != 0)[:, None, :]) | eye
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow[:, None])
        x = x + y.transpose(1, 2).reshape(b, n, self.hidden)
        return x + self.ffn(self.ln_f(x))

    def forward(self, seq):
        """seq [B, N] item ids -> scores over the catalogue [B, n_items + 1]"""
        h = self.block(self.embed(seq), seq)
        return h[:, -1] @ self.items.weight.T
