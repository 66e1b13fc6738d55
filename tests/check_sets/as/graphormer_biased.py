"""Graphormer: transformer over graph nodes with structural biases."""
import torch
from torch import nn


class GraphAttnBias(nn.Module):
    """Spatial (shortest path) bias for each head, plus the virtual distance of the graph token."""

    def __init__(self, num_heads, num_spatial):
        super().__init__()
        self.spatial_pos_encoder = nn.Embedding(num_spatial, num_heads)
        self.graph_token_virtual_distance = nn.Embedding(1, num_heads)

    def forward(self, spatial_pos):
        """spatial_pos [G, N, N] -> bias [G, H, N + 1, N + 1]"""
        g, n, _ = spatial_pos.shape
        sp = self.spatial_pos_encoder(spatial_pos).permute(0, 3, 1, 2)
        bias = sp.new_zeros(g, sp.shape[1], n + 1, n + 1)
        bias[:, :, 1:, 1:] = sp
        t = self.graph_token_virtual_distance.weight.view(1, -1, 1)
        bias[:, :, 1:, 0] += t
        bias[:, :, 0, :] += t
        return bias


class GraphNodeFeature(nn.Module):
    def __init__(self, num_atoms, num_degree, hidden):
        super().__init__()
        self.atom_encoder = nn.Embedding(num_atoms + 1, hidden, padding_idx=0)
        self.degree_encoder = nn.Embedding(num_degree, hidden, padding_idx=0)
        self.graph_token = nn.Embedding(1, hidden)

    def forward(self, x, degree):
        h = self.atom_encoder(x) + self.degree_encoder(degree)
        return torch.cat([self.graph_token.weight.expand(x.shape[0], 1, -1), h], dim=1)


class BiasedMultiheadAttention(nn.Module):
    """
    x: [G, N, C]
    attn_bias: [G, H, N, N], added to the logits
    key_padding_mask: [G, N] bool, True for the nodes that only fill up the batch; no node
        may attend to them
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.in_proj = nn.ModuleDict({n: nn.Linear(embed_dim, embed_dim) for n in ("q", "k", "v")})
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.attn_drop = nn.Dropout(dropout)

    def forward(self, x, attn_bias=None, key_padding_mask=None):
        G, N, C = x.shape
        q, k, v = (self.in_proj[n](x).reshape(G, N, self.num_heads, self.head_dim).transpose(1, 2) for n in ("q", "k", "v"))
        logits = torch.matmul(q, k.transpose(2, 3)) * self.head_dim ** -0.5
        if attn_bias is not None:
            logits = logits + attn_bias
        if key_padding_mask is not None:
            logits = logits + key_padding_mask.unsqueeze(1).unsqueeze(2)
        probs = torch.softmax(logits.float(), dim=-1).type_as(logits)
        y = torch.matmul(self.attn_drop(probs), v).transpose(1, 2).reshape(G, N, C)
        return self.out_proj(y)


class GraphormerLayer(nn.Module):
    def __init__(self, dim, heads, ffn, dropout):
        super().__init__()
        self.self_attn = BiasedMultiheadAttention(dim, heads, dropout)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.ffn = nn.Sequential(nn.Linear(dim, ffn), nn.GELU(), nn.Linear(ffn, dim), nn.Dropout(dropout))

    def forward(self, x, bias, pad):
        x = x + self.self_attn(self.n1(x), attn_bias=bias, key_padding_mask=pad)
        return x + self.ffn(self.n2(x))


class Graphormer(nn.Module):
    def __init__(self, num_atoms=120, num_degree=16, num_spatial=32, dim=48, heads=4, depth=3, dropout=0.1):
        super().__init__()
        self.node = GraphNodeFeature(num_atoms, num_degree, dim)
        self.bias = GraphAttnBias(heads, num_spatial)
        self.layers = nn.ModuleList([GraphormerLayer(dim, heads, 2 * dim, dropout) for _ in range(depth)])
        self.head = nn.Linear(dim, 1)

    def forward(self, batched):
        x, degree, sp = batched["x"], batched["in_degree"], batched["spatial_pos"]
        pad = torch.cat([torch.zeros_like(x[:, :1], dtype=torch.bool), x.eq(0)], dim=1)
        h, bias = self.node(x, degree), self.bias(sp)
        for layer in self.layers:
            h = layer(h, bias, pad)
        return self.head(h[:, 0])
