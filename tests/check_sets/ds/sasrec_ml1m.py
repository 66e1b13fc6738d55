"""SASRec block as in pmixer's port, re-done for right-padded MovieLens sequences."""
import torch
import torch.nn as nn


class PointWise(nn.Module):
    def __init__(self, d, p):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.b(torch.relu(self.a(x)))) + x


class SASRecBlock(nn.Module):
    """One causal self-attention block.

    Parameters
    ----------
    seq    : (B, L, D) item + position embeddings, first watched film first,
             padding at the END of the row.
    length : (B,) number of real films in each row, at least 1.

    Returns
    -------
    (B, L, D); position t has seen the films 0..t (itself included) and nothing
    later.  Rows at and after ``length`` are set to zero.

    As in the original repository only the query goes through the layer norm,
    keys and values are the raw sequence, and the residual is taken from the
    normalised query.
    """

    def __init__(self, d=50, heads=1, p=0.2):
        super().__init__()
        self.ln_q = nn.LayerNorm(d, eps=1e-8)
        self.ln_f = nn.LayerNorm(d, eps=1e-8)
        self.mha = nn.MultiheadAttention(d, heads, dropout=p)
        self.ffn = PointWise(d, p)

    def forward(self, seq, length):
        L = seq.size(1)
        later = torch.ones(L, L, dtype=torch.bool, device=seq.device).triu(1)   # True: not allowed
        x = seq.transpose(0, 1)
        q = self.ln_q(x)
        y, _ = self.mha(q, x, x, attn_mask=later, need_weights=False)
        y = (q + y).transpose(0, 1)
        y = self.ffn(self.ln_f(y))
        # padding sits behind the last real film, so no real row has looked at it
        real = torch.arange(L, device=seq.device) < length[:, None]
        return y * real.unsqueeze(-1)
