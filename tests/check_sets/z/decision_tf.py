import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.n_heads = n_heads
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.proj_drop = nn.Dropout(drop_p)
        self.mlp = nn.Sequential(nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p))
        self.ln1 = nn.LayerNorm(h_dim)
        self.ln2 = nn.LayerNorm(h_dim)
        self.register_buffer("tril", torch.tril(torch.ones(max_T, max_T)).view(1, 1, max_T, max_T))

    def attend(self, x, key_ok):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)
        w = q @ k.transpose(2, 3) / math.sqrt(D)
        ok = (self.tril[..., :T, :T] > 0) & key_ok[:, None, None, :]
        w = w.masked_fill(~ok, torch.finfo(w.dtype).min)
        a = self.att_drop(F.softmax(w, dim=-1))
        out = (a @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.proj_drop(self.proj_net(out))

    def forward(self, x, key_ok):
        x = self.ln1(x + self.attend(x, key_ok))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    """Return-conditioned policy on (R_1, s_1, a_1, R_2, s_2, a_2, ...).

    rtg (B, T, 1), states (B, T, S), actions (B, T, A), timesteps (B, T) long,
    valid (B, T) bool, True for real steps.  Short episodes are padded on the LEFT.
    The action at t is read from the state token, which sees R_t and s_t but not a_t.
    """

    def __init__(self, state_dim, act_dim, n_blocks=2, h_dim=32, context_len=10, n_heads=2, drop_p=0.1, max_ep=200):
        super().__init__()
        self.embed_timestep = nn.Embedding(max_ep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.embed_ln = nn.LayerNorm(h_dim)
        self.blocks = nn.ModuleList([CausalBlock(h_dim, 3 * context_len, n_heads, drop_p) for _ in range(n_blocks)])
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())
        self.predict_state = nn.Linear(h_dim, state_dim)
        self.predict_rtg = nn.Linear(h_dim, 1)

    def forward(self, timesteps, states, actions, rtg, valid=None):
        B, T, _ = states.shape
        if valid is None:
            valid = torch.ones(B, T, dtype=torch.bool, device=states.device)
        te = self.embed_timestep(timesteps)
        tokens = torch.stack(
            (self.embed_rtg(rtg) + te, self.embed_state(states) + te, self.embed_action(actions) + te), dim=2
        ).reshape(B, 3 * T, -1)
        h = self.embed_ln(tokens)
        key_ok = valid.repeat_interleave(3, dim=1)
        for blk in self.blocks:
            h = blk(h, key_ok)
        h = h.view(B, T, 3, -1)
        return {
            "action": self.predict_action(h[:, :, 1]),
            "state": self.predict_state(h[:, :, 2]),
            "rtg": self.predict_rtg(h[:, :, 2]),
        }
