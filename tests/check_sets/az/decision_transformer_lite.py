"""Decision Transformer for offline RL (Chen et al., 2021), short version.

A trajectory of T steps becomes 3T tokens:  R_1 s_1 a_1  R_2 s_2 a_2  ...
The action a_t is predicted at the token of s_t, which may know R_1 .. s_t and nothing
later.  Short trajectories are padded on the left; `steps_ok` is 1 for real steps, 0 for
padding, and nobody looks at padding.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalTrajectoryAttention(nn.Module):
    def __init__(self, h_dim, n_heads, max_tokens, drop_p):
        super().__init__()
        self.n_heads = n_heads
        self.q_net = nn.Linear(h_dim, h_dim)
        self.k_net = nn.Linear(h_dim, h_dim)
        self.v_net = nn.Linear(h_dim, h_dim)
        self.proj_net = nn.Linear(h_dim, h_dim)
        self.att_drop = nn.Dropout(drop_p)
        self.proj_drop = nn.Dropout(drop_p)
        ones = torch.ones(max_tokens, max_tokens, dtype=torch.bool)
        self.register_buffer("future", torch.triu(ones, diagonal=2))

    def forward(self, x, token_ok):
        """x [B, L, h_dim], token_ok [B, L] bool"""
        B, L, C = x.shape
        N, D = self.n_heads, C // self.n_heads
        q = self.q_net(x).view(B, L, N, D).transpose(1, 2)
        k = self.k_net(x).view(B, L, N, D).transpose(1, 2)
        v = self.v_net(x).view(B, L, N, D).transpose(1, 2)
        weights = q @ k.transpose(2, 3) / D ** 0.5
        low = torch.finfo(weights.dtype).min
        weights = weights.masked_fill(self.future[:L, :L], low)
        weights = weights.masked_fill(~token_ok[:, None, :, None], low)
        attention = self.att_drop(F.softmax(weights, dim=-1) @ v)
        attention = attention.transpose(1, 2).reshape(B, L, C)
        return self.proj_drop(self.proj_net(attention))


class Block(nn.Module):
    def __init__(self, h_dim, n_heads, max_tokens, drop_p):
        super().__init__()
        self.attention = CausalTrajectoryAttention(h_dim, n_heads, max_tokens, drop_p)
        self.mlp = nn.Sequential(
            nn.Linear(h_dim, 4 * h_dim), nn.GELU(), nn.Linear(4 * h_dim, h_dim), nn.Dropout(drop_p))
        self.ln1 = nn.LayerNorm(h_dim)
        self.ln2 = nn.LayerNorm(h_dim)

    def forward(self, x, token_ok):
        x = self.ln1(x + self.attention(x, token_ok))
        return self.ln2(x + self.mlp(x))


class DecisionTransformer(nn.Module):
    def __init__(self, state_dim, act_dim, n_blocks=2, h_dim=48, context_len=10, n_heads=2,
                 drop_p=0.1, max_timestep=1000):
        super().__init__()
        self.act_dim, self.state_dim, self.h_dim = act_dim, state_dim, h_dim
        self.blocks = nn.ModuleList(
            Block(h_dim, n_heads, 3 * context_len, drop_p) for _ in range(n_blocks))
        self.embed_ln = nn.LayerNorm(h_dim)
        self.embed_timestep = nn.Embedding(max_timestep, h_dim)
        self.embed_rtg = nn.Linear(1, h_dim)
        self.embed_state = nn.Linear(state_dim, h_dim)
        self.embed_action = nn.Linear(act_dim, h_dim)
        self.predict_action = nn.Sequential(nn.Linear(h_dim, act_dim), nn.Tanh())

    def forward(self, timesteps, states, actions, rtg, steps_ok):
        B, T, _ = states.shape
        t = self.embed_timestep(timesteps)
        h = torch.stack((self.embed_rtg(rtg) + t,
                         self.embed_state(states) + t,
                         self.embed_action(actions) + t), dim=2).reshape(B, 3 * T, self.h_dim)
        token_ok = steps_ok.bool().repeat_interleave(3, dim=1)
        h = self.embed_ln(h)
        for block in self.blocks:
            h = block(h, token_ok)
        h = h.reshape(B, T, 3, self.h_dim)
        return self.predict_action(h[:, :, 1])


def action_loss(pred, target, steps_ok):
    ok = steps_ok.bool()
    return F.mse_loss(pred[ok], target[ok])


def pad_left(x, length):
    pad = length - x.shape[0]
    return torch.cat([x.new_zeros((pad,) + x.shape[1:]), x]), pad


if __name__ == "__main__":
    torch.manual_seed(0)
    net = DecisionTransformer(state_dim=11, act_dim=3)
    B, T = 4, 10
    ok = (torch.arange(T)[None] >= torch.tensor([0, 3, 5, 9])[:, None]).long()
    a = torch.rand(B, T, 3) * 2 - 1
    p = net(torch.arange(T).expand(B, T), torch.randn(B, T, 11), a, torch.randn(B, T, 1), ok)
    print(action_loss(p, a, ok).item())
