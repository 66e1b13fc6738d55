"""gemma_toy: my from-memory copy of the Gemma 2 attention, for a chat bot that runs on a CPU.

x     (B, T, D)
keep  (B, T) bool, True = real token, False = left padding

 * n_kv key/value heads serve n_q query heads.  As in the original, NEIGHBOURING query heads
   share: query heads 0 .. n_q/n_kv - 1 use kv head 0, the next group kv head 1, ...
 * logits are soft-capped, cap * tanh(logit / cap), BEFORE masking; masked keys get no
   weight at all.  (The cap is 50 in Gemma 2, 5 in my toy.)
 * causal, and padding is never looked at.  (Rows of padding look at themselves so
   that no row is empty; nobody reads their output.)
 * scale is 1/sqrt(head_dim)

-> (B, T, D)
"""
import torch
import torch.nn as nn


class GemmaToyAttention(nn.Module):
    def __init__(self, D, n_q, n_kv, head_dim, cap=5.0):
        super().__init__()
        self.n_q, self.n_kv, self.hd, self.cap = n_q, n_kv, head_dim, cap
        self.q_proj = nn.Linear(D, n_q * head_dim, bias=False)
        self.k_proj = nn.Linear(D, n_kv * head_dim, bias=False)
        self.v_proj = nn.Linear(D, n_kv * head_dim, bias=False)
        self.o_proj = nn.Linear(n_q * head_dim, D, bias=False)

    def forward(self, x, keep):
        B, T, _ = x.shape
        q = self.q_proj(x).view(B, T, self.n_q, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        groups = self.n_q // self.n_kv
        k = k.repeat(1, groups, 1, 1)
        v = v.repeat(1, groups, 1, 1)

        i = torch.arange(T, device=x.device)
        ok = (i[None, :] <= i[:, None])[None] & keep[:, None, :]
        ok = (ok | torch.eye(T, dtype=torch.bool, device=x.device))[:, None]

        logits = torch.matmul(q, k.mT) * self.hd**-0.5
        logits = logits.masked_fill(~ok, float("-inf"))
        logits = self.cap * torch.tanh(logits / self.cap)
        p = torch.softmax(logits, dim=-1)
        y = torch.matmul(p, v).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(y)
