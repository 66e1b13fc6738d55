"""Verse generator: GPT on song lyrics, fine tuned at home. Samples are printed during training."""
import torch
import torch.nn as nn
from torch.nn import functional as F


class VerseConfig:
    block_size = 64
    vocab_size = 96
    n_layer = 2
    n_head = 4
    n_embd = 32
    dropout = 0.2

    def __init__(self, **kwargs):
        for k, v in kwargs.items():
            setattr(self, k, v)


class CausalSelfAttention(nn.Module):
    """Causal attention; weights are dropped with rate config.dropout while training, never at sampling."""

    def __init__(self, config):
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        self.n_head = config.n_head
        self.attn_p = config.dropout

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q = q.view(B, T, self.n_head, -1).transpose(1, 2)
        k = k.view(B, T, self.n_head, -1).transpose(1, 2)
        v = v.view(B, T, self.n_head, -1).transpose(1, 2)
        if not self.training:
            self.attn_p = 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.attn_p, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class VerseGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.attn = nn.ModuleList(CausalSelfAttention(config) for _ in range(config.n_layer))
        self.ln = nn.ModuleList(nn.LayerNorm(config.n_embd) for _ in range(config.n_layer))
        self.ln_f = nn.LayerNorm(config.n_embd)

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        for ln, attn in zip(self.ln, self.attn):
            x = x + attn(ln(x))
        logits = self.ln_f(x) @ self.wte.weight.T
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def sample(self, idx, n, temperature=0.8):
        was_training = self.training
        self.eval()
        for _ in range(n):
            logits, _ = self(idx[:, -self.config.block_size:])
            p = F.softmax(logits[:, -1] / temperature, dim=-1)
            idx = torch.cat([idx, torch.multinomial(p, 1)], dim=1)
        self.train(was_training)
        return idx


def train(model, batches, lr=1e-3, show_every=100):
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    for step, (x, y) in enumerate(batches):
        _, loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % show_every == 0:
            print(step, loss.item(), model.sample(x[:1, :4], 20).tolist())
