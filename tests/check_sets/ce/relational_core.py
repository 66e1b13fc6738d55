"""Relational core of a small world model (after Santoro et al. 2018).

The scene is always described by eight object slots of 64 features; some of them may
be empty. In one step the objects exchange information by multi-head self-attention
(eight heads of eight features), pass through an MLP and a gate, exactly as the
memory rows in "Relational recurrent neural networks". Empty slots are not read by
anybody: the attention weights of an object are a distribution over the objects that
are present.
"""
import torch
import torch.nn as nn

N_OBJECTS = 8


class RelationalCore(nn.Module):
    def __init__(self, dim=64, n_heads=8, n_actions=4, forget_bias=1.0):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.project = nn.Linear(dim, 3 * dim)
        self.merge = nn.Linear(dim, dim)
        self.norm_a = nn.LayerNorm(dim)
        self.norm_m = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.action = nn.Embedding(n_actions, dim)
        self.gate_x = nn.Linear(dim, 2 * dim)
        self.gate_h = nn.Linear(dim, 2 * dim, bias=False)
        self.forget_bias = forget_bias

    def attend(self, objects, present):
        B, N, C = objects.shape
        q, k, v = self.project(objects).chunk(3, dim=-1)
        q = q.view(B, N, self.n_heads, self.head_dim).transpose(1, 2)
        k = k.view(B, N, self.n_heads, self.head_dim).transpose(1, 2)
        v = v.view(B, N, self.n_heads, self.head_dim).transpose(1, 2)

        logits = torch.matmul(q, k.transpose(1, 2)) / self.head_dim ** 0.5
        weights = torch.softmax(logits, dim=-1)
        if present is not None:
            weights = weights * present[:, None, None, :].to(weights.dtype)
        mixed = torch.matmul(weights, v)
        return self.merge(mixed.transpose(1, 2).reshape(B, N, C))

    def forward(self, objects, action, present=None):
        """objects [B, 8, 64], action [B] long, present [B, 8] bool -> next objects."""
        if objects.size(1) != N_OBJECTS:
            raise ValueError(f"expected {N_OBJECTS} object slots")
        x = objects + self.action(action)[:, None]
        x = self.norm_a(x + self.attend(x, present))
        x = self.norm_m(x + self.mlp(x))
        # LSTM-like gates: keep the old slot or write the new one
        i, f = (self.gate_x(x) + self.gate_h(torch.tanh(objects))).chunk(2, dim=-1)
        new = torch.sigmoid(i) * torch.tanh(x) + torch.sigmoid(f + self.forget_bias) * objects
        return new if present is None else new * present[..., None]

    def rollout(self, objects, actions, present=None):
        frames = []
        for t in range(actions.size(1)):
            objects = self(objects, actions[:, t], present)
            frames.append(objects)
        return torch.stack(frames, dim=1)
