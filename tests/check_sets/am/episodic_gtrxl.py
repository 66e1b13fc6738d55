"""PPO agent with an episodic transformer memory: GRU-gated block over the last steps of the episode.

Multi-head attention as in Vaswani et al.: every head has projections of its own.
"""
import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    """values, keys [N, M, D] from the memory window, query [N, 1, D] the current step.

    mask [N, M]: 1 where the slot of the window is filled, 0 where it is not yet.
    """

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        assert embed_dim % num_heads == 0
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.head_size = embed_dim // num_heads
        self.values = nn.Linear(self.head_size, self.head_size, bias=False)
        self.keys = nn.Linear(self.head_size, self.head_size, bias=False)
        self.queries = nn.Linear(self.head_size, self.head_size, bias=False)
        self.fc_out = nn.Linear(embed_dim, embed_dim)

    def forward(self, values, keys, query, mask=None):
        N = query.shape[0]
        v_len, k_len, q_len = values.shape[1], keys.shape[1], query.shape[1]
        values = self.values(values.reshape(N, v_len, self.num_heads, self.head_size))
        keys = self.keys(keys.reshape(N, k_len, self.num_heads, self.head_size))
        query = self.queries(query.reshape(N, q_len, self.num_heads, self.head_size))
        energy = torch.einsum("nqhd,nkhd->nhqk", query, keys)
        if mask is not None:
            energy = energy.masked_fill(mask[:, None, None, :] == 0, -1e20)
        attention = torch.softmax(energy / self.head_size ** 0.5, dim=3)
        out = torch.einsum("nhql,nlhd->nqhd", attention, values)
        return self.fc_out(out.reshape(N, q_len, self.embed_dim)), attention


class GRUGate(nn.Module):
    def __init__(self, d, bias=2.0):
        super().__init__()
        self.W = nn.Linear(d, 3 * d, bias=False)
        self.U = nn.Linear(d, 2 * d, bias=False)
        self.Ug = nn.Linear(d, d, bias=False)
        self.b = nn.Parameter(torch.full((d,), bias))

    def forward(self, x, y):
        wr, wz, wg = self.W(y).chunk(3, -1)
        ur, uz = self.U(x).chunk(2, -1)
        r = torch.sigmoid(wr + ur)
        z = torch.sigmoid(wz + uz - self.b)
        return (1 - z) * x + z * torch.tanh(wg + self.Ug(r * x))


class GTrXLBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.attn = MultiHeadAttention(d, heads)
        self.n_q, self.n_kv, self.n_ff = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.g1, self.g2 = GRUGate(d), GRUGate(d)
        self.ff = nn.Sequential(nn.Linear(d, d), nn.ReLU())

    def forward(self, h, memory, mask):
        kv = self.n_kv(memory)
        y, w = self.attn(kv, kv, self.n_q(h).unsqueeze(1), mask)
        h = self.g1(h, torch.relu(y.squeeze(1)))
        return self.g2(h, self.ff(self.n_ff(h))), w


class ActorCritic(nn.Module):
    def __init__(self, obs, actions, d=64, heads=4, blocks=2, window=16):
        super().__init__()
        self.window = window
        self.enc = nn.Sequential(nn.Linear(obs, d), nn.ReLU())
        self.pos = nn.Parameter(torch.randn(window, d) * 0.02)
        self.blocks = nn.ModuleList(GTrXLBlock(d, heads) for _ in range(blocks))
        self.pi, self.v = nn.Linear(d, actions), nn.Linear(d, 1)

    def forward(self, obs, memory, mask):
        """memory [N, window, blocks, d]; returns the states to be stored, too"""
        h = self.enc(obs)
        store = []
        for i, b in enumerate(self.blocks):
            store.append(h.detach())
            h, _ = b(h, memory[:, :, i] + self.pos, mask)
        return torch.distributions.Categorical(logits=self.pi(h)), self.v(h)[:, 0], torch.stack(store, 1)
