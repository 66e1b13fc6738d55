"""Decision Transformer for the D4RL locomotion tasks, GPT blocks on top of SDPA.

Trajectories shorter than the context are padded on the left; attention_mask [B, K] is 1 for real steps.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedCausalAttention(nn.Module):
    def __init__(self, h_dim, n_heads, drop_p):
        super().__init__()
        self.n_heads = n_heads
        self.drop_p = drop_p
        self.qkv = nn.Linear(h_dim, 3 * h_dim)
        self.proj = nn.Linear(h_dim, h_dim)
        self.resid = nn.Dropout(drop_p)

    def forward(self, x, key_ok=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.reshape(B, T, self.n_heads, C // self.n_heads).transpose(1, 2) for t in (q, k, v))
        p = self.drop_p if self.training else 0.0
        if key_ok is None:
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        else:
            causal = torch.ones(T, T, dtype=torch.bool, device=x.device).tril()
            allow = causal & key_ok[:, None, None, :].bool()
            # pad tokens look at themselves so that no row is empty
            allow = allow | torch.eye(T, dtype=torch.bool, device=x.device)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=allow, dropout_p=p)
        return self.resid(self.proj(y.transpose(1, 2).reshape(B, T, C)))


class Block(nn.Module):
    def __init__(self, h_dim, n_heads, drop_p):
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, n_heads, drop_p)
        self.mlp = nn.Sequential(
            nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p)
        )
        self.ln1, self.ln2 = nn.LayerNorm(h_dim), nn.LayerNorm(h_dim)

    def forward(self, x, key_ok=None):
        x = self.ln1(x + self.attention(x, key_ok))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, n_blocks=3, h_dim=128, context_len=20, n_heads=1, drop_p=0.1, max_timestep=4096):
        super().__init__()
        self.h_dim = h_dim
        self.blocks = nn.ModuleList(Block(h_dim, n_heads, drop_p) for _ in range(n_blocks))
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())
        self.predict_state = nn.Linear(h_dim, state_dim)
        self.predict_rtg = nn.Linear(h_dim, 1)

    def forward(self, timesteps, states, actions, returns_to_go, attention_mask=None):
        B, K, _ = states.shape
        t = self.embed_timestep(timesteps)
        s, a, r = self.embed_state(states) + t, self.embed_action(actions) + t, self.embed_rtg(returns_to_go) + t
        # r_0, s_0, a_0, r_1, s_1, a_1, ...
        h = self.embed_ln(torch.stack((r, s, a), dim=2).reshape(B, 3 * K, self.h_dim))
        ok = None if attention_mask is None else attention_mask.repeat_interleave(3, dim=1)
        for b in self.blocks:
            h = b(h, ok)
        h = h.reshape(B, K, 3, self.h_dim).permute(0, 2, 1, 3)
        return self.predict_state(h[:, 2]), self.predict_action(h[:, 1]), self.predict_rtg(h[:, 2])


def discount_cumsum(x, gamma=1.0):
    out = torch.zeros_like(x)
    run = 0.0
    for i in range(len(x) - 1, -1, -1):
        run = x[i] + gamma * run
        out[i] = run
    return out
