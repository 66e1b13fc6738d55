# CS224-style homework: sentence encoder, written with one small module per head
import torch
import torch.nn as nn
import torch.nn.functional as F


class Head(nn.Module):
    """one head of scaled dot-product self-attention (Attention Is All You Need, eq. 1)"""

    def __init__(self, emb_size, head_size):
        super().__init__()
        self.key = nn.Linear(emb_size, head_size, bias=False)
        self.query = nn.Linear(emb_size, head_size, bias=False)
        self.value = nn.Linear(emb_size, head_size, bias=False)

    def forward(self, x, is_pad):
        k = self.key(x)      # (B, T, hs)
        q = self.query(x)    # (B, T, hs)
        wei = q @ k.transpose(-2, -1)   # (B, T, T)
        wei.masked_fill(is_pad.unsqueeze(1), torch.finfo(wei.dtype).min)
        wei = F.softmax(wei, dim=-1)
        return wei @ self.value(x)


class MultiHeadAttention(nn.Module):
    """
    x: (B, T, emb_size)
    is_pad: (B, T) bool, True for <pad>; nobody attends to <pad>
    """

    def __init__(self, emb_size=32, num_heads=4):
        super().__init__()
        head_size = emb_size // num_heads
        self.heads = [Head(emb_size, head_size) for _ in range(num_heads)]
        self.proj = nn.Linear(emb_size, emb_size)

    def forward(self, x, is_pad):
        out = torch.cat([h(x, is_pad) for h in self.heads], dim=-1)
        return self.proj(out)


class FeedForward(nn.Module):
    def __init__(self, emb_size):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(emb_size, 4 * emb_size), nn.ReLU(), nn.Linear(4 * emb_size, emb_size))

    def forward(self, x):
        return self.net(x)


class ReviewClassifier(nn.Module):
    def __init__(self, vocab_size=500, emb_size=32, num_heads=4, max_len=64, n_classes=2):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, emb_size, padding_idx=0)
        self.pos = nn.Embedding(max_len, emb_size)
        self.ln1, self.ln2 = nn.LayerNorm(emb_size), nn.LayerNorm(emb_size)
        self.sa = MultiHeadAttention(emb_size, num_heads)
        self.ff = FeedForward(emb_size)
        self.fc = nn.Linear(emb_size, n_classes)

    def forward(self, idx):
        is_pad = idx == 0
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1), device=idx.device))
        x = x + self.sa(self.ln1(x), is_pad)
        x = x + self.ff(self.ln2(x))
        x = x.masked_fill(is_pad.unsqueeze(-1), 0.0)
        return self.fc(x.sum(1) / (~is_pad).sum(1, keepdim=True).clamp(min=1))
