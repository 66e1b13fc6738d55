# HW3 - Sentiment classification of film reviews
# Student version, Tensor2Tensor-like folding of heads in the batch
import torch
import torch.nn as nn

torch.manual_seed(42)


class MultiHeadedAttention(nn.Module):
    """
    Self attention with the heads stacked along the batch dimension.

    x:       [B, T, D]
    lengths: [B] number of real words of each review (the rest is padding)
    """

    def __init__(self, dim, num_heads):
        super().__init__()
        assert dim % num_heads == 0
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.W_q = nn.Linear(dim, dim)
        self.W_k = nn.Linear(dim, dim)
        self.W_v = nn.Linear(dim, dim)
        self.W_o = nn.Linear(dim, dim)

    def forward(self, x, lengths):
        B, T, D = x.shape

        # [B, T, D] -> [H*B, T, D/H]
        q = torch.cat(torch.split(self.W_q(x), self.head_dim, dim=2), dim=0)
        k = torch.cat(torch.split(self.W_k(x), self.head_dim, dim=2), dim=0)
        v = torch.cat(torch.split(self.W_v(x), self.head_dim, dim=2), dim=0)

        scores = torch.bmm(q, k.transpose(1, 2)) / self.head_dim ** 0.5

        # True = padding
        pad = torch.arange(T, device=x.device)[None, :] >= lengths[:, None]
        # one mask for each head: [H*B, 1, T]
        pad = pad.repeat_interleave(self.num_heads, dim=0).unsqueeze(1)
        scores = scores.masked_fill(pad, -1e9)

        attn = torch.softmax(scores, dim=-1)
        out = torch.bmm(attn, v)

        # [H*B, T, D/H] -> [B, T, D]
        out = torch.cat(torch.split(out, B, dim=0), dim=2)
        return self.W_o(out)


class SentimentModel(nn.Module):
    def __init__(self, vocab_size, dim=32, num_heads=4):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.attention = MultiHeadedAttention(dim, num_heads)
        self.classifier = nn.Linear(dim, 2)

    def forward(self, tokens):
        lengths = (tokens != 0).sum(1)
        h = self.attention(self.embedding(tokens), lengths)
        return self.classifier(h.mean(1))
