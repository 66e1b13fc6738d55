import torch
import torch.nn as nn


class RelativePosition(nn.Module):
    def __init__(self, num_units, max_relative_position):
        super().__init__()
        self.max_relative_position = max_relative_position
        self.embeddings_table = nn.Parameter(torch.empty(max_relative_position * 2 + 1, num_units))
        nn.init.xavier_uniform_(self.embeddings_table)

    def forward(self, length_q, length_k):
        distance = torch.arange(length_k)[None, :] - torch.arange(length_q)[:, None]
        clipped = distance.clamp(-self.max_relative_position, self.max_relative_position)
        return self.embeddings_table[clipped + self.max_relative_position]


class RelativeAttention(nn.Module):
    """Relative position representations in keys and values (Shaw et al. 2018)."""

    def __init__(self, hid_dim, n_heads, max_relative_position=2):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, hid_dim // n_heads
        self.relative_position_k = RelativePosition(self.head_dim, max_relative_position)
        self.relative_position_v = RelativePosition(self.head_dim, max_relative_position)
        self.fc_q, self.fc_k, self.fc_v, self.fc_o = (nn.Linear(hid_dim, hid_dim) for _ in range(4))

    def forward(self, query, key, value):
        b, lq, lk = query.shape[0], query.shape[1], key.shape[1]
        q = self.fc_q(query).view(b, lq, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.fc_k(key).view(b, lk, self.n_heads, self.head_dim).transpose(1, 2)
        v = self.fc_v(value).view(b, lk, self.n_heads, self.head_dim).transpose(1, 2)
        r_k, r_v = self.relative_position_k(lq, lk), self.relative_position_v(lq, lk)
        attn = torch.matmul(q, k.transpose(2, 3)) + torch.einsum("bhqd,qkd->bhqk", q, r_k)
        attn = torch.softmax(attn / self.head_dim ** 0.5, dim=-1)
        x = torch.matmul(attn, v) + torch.einsum("bhqk,qkd->bhqd", attn, r_v)
        return self.fc_o(x.transpose(1, 2).reshape(b, lq, -1))
