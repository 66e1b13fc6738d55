"""Decision-transformer-like agent for Pong (ALE), course project RL 2023.

One token per frame: embedding of (return-to-go, frame, previous action).
The agent must not see the future: step t may use steps 0..t.
"""
import math
import torch
import torch.nn as nn
from torch.nn import functional as F


class MemSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, p_drop):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.n_head = n_head
        self.drop = nn.Dropout(p_drop)

    def forward(self, x):
        """causal self-attention, x [B, T, C]"""
        B, T, C = x.shape
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = q @ k.transpose(-2, -1) / math.sqrt(k.size(-2))
        future = torch.triu(torch.ones(T, T, device=x.device), diagonal=2).bool()
        att = att.masked_fill(future, float('-inf'))
        att = self.drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class Block(nn.Module):
    def __init__(self, n_embd, n_head, p):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = MemSelfAttention(n_embd, n_head, p)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(p))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class PongDT(nn.Module):
    def __init__(self, n_embd=128, n_head=8, layers=4, ctx=30, actions=6, p=0.1):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(3136, n_embd), nn.Tanh())
        self.rtg = nn.Linear(1, n_embd)
        self.act = nn.Embedding(actions + 1, n_embd)
        self.pos = nn.Parameter(torch.zeros(1, ctx, n_embd))
        self.blocks = nn.Sequential(*[Block(n_embd, n_head, p) for _ in range(layers)])
        self.ln = nn.LayerNorm(n_embd)
        self.head = nn.Linear(n_embd, actions, bias=False)

    def forward(self, frames, rtg, prev_act):
        """frames [B, T, 4, 84, 84], rtg [B, T, 1], prev_act [B, T]"""
        B, T = prev_act.shape
        f = self.cnn(frames.flatten(0, 1) / 255.0).view(B, T, -1)
        x = f + self.rtg(rtg) + self.act(prev_act) + self.pos[:, :T]
        return self.head(self.ln(self.blocks(x)))

    def loss(self, frames, rtg, prev_act, act):
        logits = self(frames, rtg, prev_act)
        return F.cross_entropy(logits.flatten(0, 1), act.flatten())


class History:
    """keeps the last ctx steps of an episode"""

    def __init__(self, ctx, target):
        self.ctx, self.rtg = ctx, [float(target)]
        self.frames, self.acts = [], [6]

    def push(self, frame):
        self.frames.append(frame)

    def tensors(self):
        s = slice(-self.ctx, None)
        return (torch.stack(self.frames[s])[None], torch.tensor(self.rtg[s])[None, :, None],
                torch.tensor(self.acts[s])[None])

    def feedback(self, action, reward):
        self.acts.append(action)
        self.rtg.append(self.rtg[-1] - reward)
