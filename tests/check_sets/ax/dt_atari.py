"""Decision transformer for the Atari replays.

Every time step becomes three tokens: return-to-go, state, action (in this order).
Short histories are padded on the LEFT; ``valid`` [B, K] is 1 for real steps.
The action of step t is read from the token of state t.
"""
import math
from collections import namedtuple

import torch
import torch.nn as nn
from torch.nn import functional as F

DTConfig = namedtuple("DTConfig", "state_dim n_actions context n_embd n_head n_layer max_t dropout",
                      defaults=(30, 128, 8, 6, 4096, 0.1))


class TrajectoryAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        assert cfg.n_embd % cfg.n_head == 0
        self.n_head = cfg.n_head
        self.key = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.query = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.value = nn.Linear(cfg.n_embd, cfg.n_embd)
        self.attn_drop = nn.Dropout(cfg.dropout)
        self.resid_drop = nn.Dropout(cfg.dropout)
        self.proj = nn.Linear(cfg.n_embd, cfg.n_embd)
        n = 3 * cfg.context
        self.register_buffer("tril", torch.tril(torch.ones(n, n, dtype=torch.bool)), persistent=False)

    def forward(self, x, valid):
        """x [B, T, C]; valid [B, T] bool, True = real token"""
        B, T, C = x.size()
        split = lambda y: y.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q, k, v = split(self.query(x)), split(self.key(x)), split(self.value(x))

        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        allowed = self.tril[:T, :T] & valid[:, None, None, :]
        att = torch.where(allowed, att, torch.finfo(att.dtype).min)
        att = self.attn_drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.proj(y))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = TrajectoryAttention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(),
                                 nn.Linear(4 * cfg.n_embd, cfg.n_embd), nn.Dropout(cfg.dropout))

    def forward(self, x, valid):
        x = x + self.attn(self.ln1(x), valid)
        return x + self.mlp(self.ln2(x))


class DecisionTransformer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.rtg = nn.Sequential(nn.Linear(1, cfg.n_embd), nn.Tanh())
        self.state = nn.Sequential(nn.Linear(cfg.state_dim, cfg.n_embd), nn.Tanh())
        self.action = nn.Embedding(cfg.n_actions + 1, cfg.n_embd)   # last row: "no action yet"
        self.time = nn.Embedding(cfg.max_t, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, cfg.n_actions, bias=False)

    def forward(self, rtg, states, actions, timesteps, valid):
        t = self.time(timesteps)
        tok = torch.stack([self.rtg(rtg.unsqueeze(-1)) + t, self.state(states) + t, self.action(actions) + t], dim=2)
        x = tok.flatten(1, 2)
        keep = valid.bool().repeat_interleave(3, dim=1)
        for blk in self.blocks:
            x = blk(x, keep)
        return self.head(self.ln(x)[:, 1::3])

    @torch.no_grad()
    def act(self, history, target_return, greedy=True):
        """history: list of (state, action or None, reward), oldest first"""
        cfg, h = self.cfg, history[-self.cfg.context:]
        n, K = len(h), cfg.context
        states = torch.zeros(1, K, cfg.state_dim)
        actions = torch.full((1, K), cfg.n_actions)
        rtg, ts, valid = torch.zeros(1, K), torch.zeros(1, K, dtype=torch.long), torch.zeros(1, K)
        left = target_return - sum(r for _, _, r in history[: len(history) - n])
        for i, (s, a, r) in enumerate(h):
            j = K - n + i
            states[0, j] = torch.as_tensor(s)
            actions[0, j] = cfg.n_actions if a is None else a
            rtg[0, j], ts[0, j], valid[0, j] = left, len(history) - n + i, 1
            left -= r
        logits = self(rtg, states, actions, ts, valid)[0, -1]
        return int(logits.argmax()) if greedy else int(torch.multinomial(logits.softmax(-1), 1))
