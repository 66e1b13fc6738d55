"""Decision Transformer for offline RL: (return-to-go, state, action) triples as one sequence."""
import math

import torch
import torch.nn as nn


def returns_to_go(rewards):
    return torch.flip(torch.cumsum(torch.flip(rewards, [-1]), -1), [-1])


class MaskedCausalAttention(nn.Module):
    """GPT attention; also hides left padding. pad_mask is 1 for real timesteps, 0 for padding."""

    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.n_heads, self.max_T = n_heads, max_T
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.proj_drop = nn.Dropout(drop_p)
        self.register_buffer("mask", torch.tril(torch.ones(max_T, max_T)).view(1, 1, max_T, max_T))

    def forward(self, x, pad_mask):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)
        weights = q @ k.transpose(2, 3) / math.sqrt(D)
        ok = self.mask[..., :T, :T] * pad_mask[:, None, None, :]
        # a padded row keeps its own place, so that no row is empty (its output is never used)
        ok = torch.maximum(ok, torch.eye(T, device=x.device))
        weights = weights.masked_fill(ok == 0, float("-inf"))
        attn = self.att_drop(torch.softmax(weights, dim=-1)) @ v
        attn = attn.transpose(1, 2).contiguous().view(B, T, N * D)
        return self.proj_drop(self.proj_net(attn))


class Block(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, max_T, n_heads, drop_p)
        self.mlp = nn.Sequential(nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p))
        self.ln1, self.ln2 = nn.LayerNorm(h_dim), nn.LayerNorm(h_dim)

    def forward(self, x, m):
        x = self.ln1(x + self.attention(x, m))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, n_blocks=2, h_dim=32, context_len=20, n_heads=1, drop_p=0.1, max_timestep=4096):
        super().__init__()
        self.h_dim = h_dim
        self.blocks = nn.ModuleList(Block(h_dim, 3 * context_len, n_heads, drop_p) for _ in range(n_blocks))
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())

    def forward(self, timesteps, states, actions, rtg, traj_mask):
        B, T, _ = states.shape
        te = self.embed_timestep(timesteps)
        h = torch.stack((self.embed_rtg(rtg) + te, self.embed_state(states) + te, self.embed_action(actions) + te), dim=2)
        h = self.embed_ln(h.reshape(B, 3 * T, self.h_dim))
        m = traj_mask.float().repeat_interleave(3, dim=1)
        for blk in self.blocks:
            h = blk(h, m)
        # the action is predicted at the state token
        return self.predict_action(h.reshape(B, T, 3, self.h_dim)[:, :, 1])
