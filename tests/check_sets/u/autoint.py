import torch
import torch.nn as nn
import torch.nn.functional as F


class InteractingLayer(nn.Module):
    def __init__(self, embed_dim=12, att_dim=16, heads=2):
        super().__init__()
        self.heads, self.size = heads, att_dim // heads
        self.W_q = nn.Linear(embed_dim, att_dim, bias=False)
        self.W_k = nn.Linear(embed_dim, att_dim, bias=False)
        self.W_v = nn.Linear(embed_dim, att_dim, bias=False)
        self.W_res = nn.Linear(embed_dim, att_dim, bias=False)

    def forward(self, x):
        batch, fields, _ = x.shape
        q = self.W_q(x).view(batch, self.heads, fields, self.size)
        k = self.W_k(x).view(batch, self.heads, fields, self.size)
        v = self.W_v(x).view(batch, self.heads, fields, self.size)
        score = torch.einsum("bhqd,bhkd->bhqk", q, k) / self.size ** 0.5
        out = torch.einsum("bhqk,bhkd->bqhd", F.softmax(score, dim=-1), v)
        return F.relu(out.reshape(batch, fields, -1) + self.W_res(x))


class AutoInt(nn.Module):
    def __init__(self, field_dims=(7, 5, 9, 4), embed_dim=12, att_dim=16, heads=2, layers=2):
        super().__init__()
        self.emb = nn.ModuleList(nn.Embedding(n, embed_dim) for n in field_dims)
        dims = [embed_dim] + [att_dim] * layers
        self.layers = nn.ModuleList(InteractingLayer(a, b, heads) for a, b in zip(dims, dims[1:]))
        self.fc = nn.Linear(att_dim * len(field_dims), 1)

    def forward(self, feats):
        x = torch.stack([e(feats[:, i]) for i, e in enumerate(self.emb)], 1)
        for layer in self.layers:
            x = layer(x)
        return torch.sigmoid(self.fc(x.flatten(1))).squeeze(1)
