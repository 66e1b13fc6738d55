"""Decision Transformer (Chen et al. 2021) for a maze game. It's minGPT with three tokens a step.

rtg (B, K, 1), obs (B, K, O), act (B, K) int64, step (B, K) int64 < max_step
-> action logits (B, K, n_act), where the logits at step k may use rtg and obs up to and
   including k, and the actions before k only.

Sequence: R_0, s_0, a_0, R_1, s_1, a_1, ... and the logits are read at the s tokens. Causal
multi-head attention, 1/sqrt(head size), heads put side by side again, dropout in training
only.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalSelfAttention(nn.Module):
    def __init__(self, C, n_head, p=0.1):
        super().__init__()
        self.n_head, self.p = n_head, p
        self.key, self.query, self.value = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        self.proj = nn.Linear(C, C)

    def forward(self, x):
        B, T, C = x.size()
        hs = C // self.n_head
        k = self.key(x).view(B, T, self.n_head, hs).transpose(1, 2)
        q = self.query(x).view(B, T, self.n_head, hs).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_head, hs).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) / hs ** 0.5
        tri = torch.ones(T, T, device=x.device).tril(diagonal=1)
        att = att.masked_fill(tri == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = F.dropout(att, self.p)
        y = att @ v
        y = y.contiguous().view(B, T, C)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, C, n_head):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.attn = CausalSelfAttention(C, n_head)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, O=10, n_act=4, C=32, n_head=4, n_layer=2, max_step=64):
        super().__init__()
        self.e_rtg, self.e_obs = nn.Linear(1, C), nn.Linear(O, C)
        self.e_act, self.e_step = nn.Embedding(n_act, C), nn.Embedding(max_step, C)
        self.blocks = nn.Sequential(*[Block(C, n_head) for _ in range(n_layer)])
        self.ln = nn.LayerNorm(C)
        self.head = nn.Linear(C, n_act)

    def forward(self, rtg, obs, act, step):
        B, K = act.shape
        tok = torch.stack([self.e_rtg(rtg), self.e_obs(obs), self.e_act(act)], dim=2)
        tok = (tok + self.e_step(step).unsqueeze(2)).reshape(B, 3 * K, -1)
        x = self.ln(self.blocks(tok))
        return self.head(x[:, 1::3])
