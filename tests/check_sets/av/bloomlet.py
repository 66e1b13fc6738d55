"""ALiBi decoder for protein language models, any number of heads."""
import math

import torch
import torch.nn as nn


def get_slopes(n_heads):
    """Slopes of the ALiBi paper (Press et al.): a geometric sequence from 2^(-8/n) with
    the same ratio; head counts that are not a power of two as in the released code."""
    start = 2 ** (-8 / n_heads)
    return torch.tensor([start ** (h + 1) for h in range(n_heads)])


class AlibiAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.Wqkv = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.register_buffer("slopes", get_slopes(n_heads), persistent=False)

    def _bias(self, T, S, device):
        qpos = torch.arange(S - T, S, device=device)[:, None]
        kpos = torch.arange(S, device=device)[None, :]
        bias = self.slopes[:, None, None] * (kpos - qpos)
        return bias.masked_fill(kpos > qpos, float("-inf"))

    def forward(self, x, kv=None):
        """Causal. kv: (k, v) of earlier residues [B, H, S, d]."""
        B, T, C = x.shape
        q, k, v = self.Wqkv(x).split(C, dim=2)
        q = q.view(B, T, self.n_heads, self.d_head).transpose(1, 2)
        k = k.view(B, T, self.n_heads, self.d_head).transpose(1, 2)
        v = v.view(B, T, self.n_heads, self.d_head).transpose(1, 2)
        if kv is not None:
            k, v = torch.cat([kv[0], k], 2), torch.cat([kv[1], v], 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(self.d_head))
        att = att + self._bias(T, k.size(2), x.device)
        y = att.softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).contiguous().view(B, T, C)), (k, v)


class ProteinBlock(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.attn = AlibiAttention(d_model, n_heads)
        self.mlp = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))

    def forward(self, x, kv=None):
        y, kv = self.attn(self.ln1(x), kv)
        x = x + y
        return x + self.mlp(self.ln2(x)), kv


class ProtLM(nn.Module):
    # 25 letters and <bos>; 12 heads as in the published model
    def __init__(self, vocab=26, d_model=96, n_heads=12, n_layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, d_model)
        self.blocks = nn.ModuleList(ProteinBlock(d_model, n_heads) for _ in range(n_layers))
        self.ln = nn.LayerNorm(d_model)

    def forward(self, ids):
        x = self.tok(ids)
        for b in self.blocks:
            x, _ = b(x)
        return self.ln(x) @ self.tok.weight.T

    def pseudo_perplexity(self, ids):
        lp = self(ids[:, :-1]).log_softmax(-1)
        return lp.gather(-1, ids[:, 1:, None]).mean().neg().exp()
