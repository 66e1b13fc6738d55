"""Decision transformer agent with past key/values, for the gym-retro boxes.

Tokens are interleaved (return, state, action). When acting, each environment step appends
three tokens (or two, before the action is known) to what the layers have cached.
"""
import math
import torch
import torch.nn as nn
from torch.nn import functional as F


class DTConfig:
    def __init__(self, n_embd=128, n_head=4, n_layer=3, n_ctx=90, act_dim=18, state_dim=64, resid_pdrop=0.1,
                 attn_pdrop=0.1):
        self.__dict__.update({k: v for k, v in locals().items() if k != "self"})


class CausalAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.n_embd % config.n_head == 0
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.attn_drop = nn.Dropout(config.attn_pdrop)
        self.resid_drop = nn.Dropout(config.resid_pdrop)
        self.register_buffer("bias", torch.tril(torch.ones(config.n_ctx, config.n_ctx, dtype=torch.bool)))
        self.n_head = config.n_head

    def forward(self, x, layer_past=None):
        """x [B, T, C] are the new tokens; layer_past = (k, v) each [B, nh, S, hs] of the tokens
        before them. A token sees everything before it and itself. Returns y and the new present."""
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if layer_past is not None:
            k = torch.cat([layer_past[0], k], dim=2)
            v = torch.cat([layer_past[1], v], dim=2)
        present = (k, v)
        S = k.size(2)

        att = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        att = att.masked_fill(~self.bias[:T, :S], float("-inf"))
        att = self.attn_drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_drop(self.c_proj(y)), present


class DTBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.n_embd)
        self.attn = CausalAttention(config)
        self.ln_2 = nn.LayerNorm(config.n_embd)
        self.mlp = nn.Sequential(nn.Linear(config.n_embd, 4 * config.n_embd), nn.GELU(),
                                 nn.Linear(4 * config.n_embd, config.n_embd), nn.Dropout(config.resid_pdrop))

    def forward(self, x, past=None):
        a, present = self.attn(self.ln_1(x), past)
        x = x + a
        return x + self.mlp(self.ln_2(x)), present


class DecisionTransformer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.ret_emb = nn.Sequential(nn.Linear(1, config.n_embd), nn.Tanh())
        self.state_emb = nn.Sequential(nn.Linear(config.state_dim, config.n_embd), nn.Tanh())
        self.action_emb = nn.Embedding(config.act_dim, config.n_embd)
        self.pos_emb = nn.Embedding(config.n_ctx, config.n_embd)
        self.blocks = nn.ModuleList([DTBlock(config) for _ in range(config.n_layer)])
        self.ln_f = nn.LayerNorm(config.n_embd)
        self.head = nn.Linear(config.n_embd, config.act_dim, bias=False)

    def embed(self, rtg, states, actions=None):
        parts = [self.ret_emb(rtg.unsqueeze(-1)), self.state_emb(states)]
        if actions is not None:
            parts.append(self.action_emb(actions))
        return torch.stack(parts, dim=2).flatten(1, 2)

    def run(self, tokens, past=None):
        start = 0 if past is None else past[0][0].size(2)
        x = tokens + self.pos_emb(torch.arange(start, start + tokens.size(1), device=tokens.device))
        presents = []
        for i, blk in enumerate(self.blocks):
            x, p = blk(x, None if past is None else past[i])
            presents.append(p)
        return self.ln_f(x), presents

    def forward(self, rtg, states, actions):
        h, _ = self.run(self.embed(rtg, states, actions))
        return self.head(h[:, 1::3])
