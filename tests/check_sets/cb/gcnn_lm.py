"""Gated convolutional language model (Dauphin et al., 2017), character level, Shakespeare.

Causality comes from left padding only. Bottleneck residual blocks as in the GCNN-8B of
the paper; weight norm is left out, it made no difference at this size.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedConvBlock(nn.Module):
    """(A * sigmoid(B)) with A, B causal convolutions of x; residual around the block."""

    def __init__(self, channels, bottleneck, kernel):
        super().__init__()
        self.kernel = kernel
        self.down = nn.Conv1d(channels, bottleneck, 1)
        self.value = nn.Conv1d(bottleneck, bottleneck, kernel)
        self.gate = nn.Conv1d(bottleneck, bottleneck, kernel)
        self.up = nn.Conv1d(bottleneck, channels, 1)

    def forward(self, x, state=None):
        """x (B, C, T). state: last kernel-1 bottleneck columns of the past, for sampling."""
        h = self.down(x)
        if state is None:
            h = F.pad(h, (self.kernel - 1, 0))
        else:
            h = torch.cat([state, h], dim=-1)
        new_state = h[..., h.size(-1) - (self.kernel - 1):]
        y = self.value(h) * torch.sigmoid(self.gate(h))
        return x + self.up(y), new_state


class GCNN(nn.Module):
    def __init__(self, vocab, channels=48, bottleneck=24, kernel=4, depth=4):
        super().__init__()
        self.emb = nn.Embedding(vocab, channels)
        self.blocks = nn.ModuleList(GatedConvBlock(channels, bottleneck, kernel) for _ in range(depth))
        self.out = nn.Linear(channels, vocab)

    def forward(self, ids, states=None):
        x = self.emb(ids).transpose(1, 2)
        new = []
        for i, block in enumerate(self.blocks):
            x, s = block(x, None if states is None else states[i])
            new.append(s)
        return self.out(x.transpose(1, 2)), new

    @torch.no_grad()
    def sample(self, prompt, n, temperature=0.9):
        logits, states = self(prompt)
        out = [prompt]
        for _ in range(n):
            p = torch.softmax(logits[:, -1] / temperature, dim=-1)
            token = torch.multinomial(p, 1)
            out.append(token)
            logits, states = self(token, states)
        return torch.cat(out, dim=1)
