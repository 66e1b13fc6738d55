"""Decision Transformer for Hopper-v3 (re-implementation, gym part left out).

Trajectories are left-padded: pad_mask (B, T) has 1 for real steps and 0 for padding; the three
tokens (return, state, action) of a step share its mask.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedCausalAttention(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.n_heads, self.max_T = n_heads, max_T
        self.q_net, self.k_net, self.v_net, self.proj_net = (nn.Linear(h_dim, h_dim) for _ in range(4))
        self.att_drop, self.proj_drop = nn.Dropout(drop_p), nn.Dropout(drop_p)
        self.register_buffer("tril", torch.tril(torch.ones(max_T, max_T)).view(1, 1, max_T, max_T))

    def forward(self, x, pad_mask=None):
        B, T, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, T, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, T, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, T, N, D).transpose(1, 2)

        weights = q @ k.transpose(2, 3) / D ** 0.5
        allowed = self.tril[..., :T, :T]
        if pad_mask is not None:
            allowed = allowed * pad_mask[:, None, None, :]
        weights = weights.masked_fill(allowed == 0, float("-inf"))
        normalized = F.softmax(weights, dim=-1)
        # steps in the left padding have nothing to look at
        normalized = torch.nan_to_num(normalized, nan=0.0)
        attention = self.att_drop(normalized @ v)
        attention = attention.transpose(1, 2).contiguous().view(B, T, N * D)
        return self.proj_drop(self.proj_net(attention))


class Block(nn.Module):
    def __init__(self, h_dim, max_T, n_heads, drop_p):
        super().__init__()
        self.attention = MaskedCausalAttention(h_dim, max_T, n_heads, drop_p)
        self.mlp = nn.Sequential(nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p))
        self.ln1, self.ln2 = nn.LayerNorm(h_dim), nn.LayerNorm(h_dim)

    def forward(self, x, pad):
        x = self.ln1(x + self.attention(x, pad))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, n_blocks, h_dim, context_len, n_heads, drop_p, max_timestep=1000):
        super().__init__()
        self.h_dim = h_dim
        self.blocks = nn.ModuleList(Block(h_dim, 3 * context_len, n_heads, drop_p) for _ in range(n_blocks))
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg, self.embed_state = nn.Linear(1, h_dim), nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())

    def forward(self, timesteps, states, actions, rtg, pad_mask=None):
        B, T, _ = states.shape
        t = self.embed_timestep(timesteps)
        toks = (self.embed_rtg(rtg) + t, self.embed_state(states) + t, self.embed_action(actions) + t)
        h = torch.stack(toks, dim=2).reshape(B, 3 * T, self.h_dim)
        pad = None if pad_mask is None else pad_mask.repeat_interleave(3, dim=1)
        h = self.embed_ln(h)
        for b in self.blocks:
            h = b(h, pad)
        return self.predict_action(h.view(B, T, 3, self.h_dim)[:, :, 1])     # from the state tokens


if __name__ == "__main__":
    m = DecisionTransformer(11, 3, 2, 24, 5, 2, 0.1).eval()
    pm = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    a = m(torch.arange(5).expand(2, 5), torch.randn(2, 5, 11), torch.randn(2, 5, 3), torch.randn(2, 5, 1), pm)
    print(a.shape, a.isfinite().all())
