"""Self attention with a learned sink per head (the gpt-oss flavour).

Each head owns one scalar logit that joins the softmax as an extra column and is
thrown away afterwards.  The remaining weights therefore sum to LESS than one; a
head can turn itself off.  A query with nothing to look at yields zeros.

Left-padded prompts are fine: `keep` [B, T] is True on real tokens.
"""
import torch
from torch import nn


class SinkAttention(nn.Module):
    def __init__(self, hidden=48, heads=4):
        super().__init__()
        self.heads = heads
        self.hd = hidden // heads
        self.q_proj = nn.Linear(hidden, hidden)
        self.k_proj = nn.Linear(hidden, hidden)
        self.v_proj = nn.Linear(hidden, hidden)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.sinks = nn.Parameter(torch.randn(heads))

    def forward(self, x, keep=None, return_weights=False):
        """causal. x [B, T, hidden] -> [B, T, hidden] (, weights [B, heads, T, T])"""
        B, T, _ = x.shape
        q, k, v = (
            p(x).view(B, T, self.heads, self.hd).permute(0, 2, 1, 3)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        s = q @ k.mT * self.hd ** -0.5
        ok = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
        if keep is not None:
            ok = ok & keep[:, None, None, :]
        s = s.masked_fill(~ok, float("-inf"))
        sink = self.sinks.view(1, -1, 1, 1).expand(B, -1, T, 1).to(s.dtype)
        p = torch.cat([s, sink], dim=-1).softmax(dim=-1, dtype=torch.float32)
        p = p[..., :-1].to(v.dtype)
        y = (p @ v).permute(0, 2, 1, 3).flatten(2)
        y = self.o_proj(y)
        return (y, p) if return_weights else y


if __name__ == "__main__":
    torch.manual_seed(0)
    m = SinkAttention()
    keep = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
    y, p = m(torch.randn(2, 5, 48), keep, return_weights=True)
    print(y[0, 0].abs().max().item(), p.sum(-1)[1, 0])
