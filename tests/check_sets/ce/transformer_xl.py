"""Transformer-XL layer with segment recurrence (Dai et al., 2019).

Reimplementation for character-level experiments. The logit of query i and key j is

    A_ij = (q_i + u)^T k_j + (q_i + v)^T W_r R_{i-j}

divided by sqrt(d), where R_t is the sinusoidal encoding (sines first, then cosines)
of the distance t = i - j >= 0 between the query and the key, and u, v are learned
per head. Keys and values cover the cached segment `mems` and the current one;
attention is causal.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RelPartialLearnable(nn.Module):
    def __init__(self, n_head, d_model, d_head):
        super().__init__()
        self.n_head, self.d_head = n_head, d_head
        self.q_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.kv_net = nn.Linear(d_model, 2 * n_head * d_head, bias=False)
        self.r_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.u = nn.Parameter(torch.randn(n_head, d_head) * 0.5)
        self.v = nn.Parameter(torch.randn(n_head, d_head) * 0.5)

    @staticmethod
    def rel_shift(x):
        # x: [B, H, q, k]; row i moves q - 1 - i places to the left
        B, H, q, k = x.shape
        x = F.pad(x, (1, 0)).view(B, H, k + 1, q)
        return x[:, :, 1:].reshape(B, H, q, k)

    def forward(self, w, r, mems):
        B, L, _ = w.shape
        cat = w if mems is None else torch.cat([mems, w], dim=1)
        K = cat.size(1)
        q = self.q_net(w).view(B, L, self.n_head, self.d_head)
        k, val = self.kv_net(cat).view(B, K, 2, self.n_head, self.d_head).unbind(2)
        r = self.r_net(r).view(K, self.n_head, self.d_head)

        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        position = self.rel_shift(torch.einsum("bihd,jhd->bhij", q + self.v, r))
        score = (content + position) / self.d_head ** 0.5
        later = torch.ones(L, K, dtype=torch.bool, device=w.device).triu(K - L + 1)
        prob = score.masked_fill(later, float("-inf")).softmax(dim=-1)
        vec = torch.einsum("bhij,bjhd->bihd", prob, val).flatten(2)
        return self.o_net(vec)


class TransformerXLLayer(nn.Module):
    def __init__(self, n_head=4, d_model=32, d_head=8, d_inner=64):
        super().__init__()
        self.attn = RelPartialLearnable(n_head, d_model, d_head)
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, d_inner), nn.ReLU(), nn.Linear(d_inner, d_model))
        inv_freq = 1 / (10000 ** (torch.arange(0.0, d_model, 2.0) / d_model))
        self.register_buffer("inv_freq", inv_freq)

    def positions(self, klen):
        pos_seq = torch.arange(0.0, klen, 1.0, device=self.inv_freq.device)
        s = torch.outer(pos_seq, self.inv_freq)
        return torch.cat([s.sin(), s.cos()], dim=-1)

    def forward(self, x, mems=None):
        """x [B, L, d_model], mems [B, M, d_model] or None -> (y, new mems [B, L, d_model])."""
        klen = x.size(1) + (0 if mems is None else mems.size(1))
        y = self.ln1(x + self.attn(x, self.positions(klen), mems))
        return self.ln2(y + self.ff(y)), x.detach()
