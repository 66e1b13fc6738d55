"""Image captioning, second try: ResNet grid features + a transformer decoder whose
cross-attention we draw as heat maps over the image.

Regions may be padded (detector features): region_mask (B, R) 1 = region, 0 = padding;
padded regions must not be attended to.
"""
import math
import torch
import torch.nn as nn


class RegionCrossAttention(nn.Module):
    """Returns (output, weights).  weights (B, heads, T, R) are the attention distributions
    that the heat maps show: over the regions they sum to one."""

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))
        self.dropout = nn.Dropout(dropout)

    def forward(self, words, regions, region_mask=None):
        B = words.size(0)
        query, key, value = [
            lin(x).view(B, -1, self.n_heads, self.d_k).transpose(1, 2)
            for lin, x in zip(self.linears, (words, regions, regions))]
        scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(self.d_k)
        if region_mask is not None:
            scores = scores * region_mask[:, None, None, :]
        weights = torch.softmax(scores, dim=-1)
        weights = self.dropout(weights)
        x = torch.matmul(weights, value)
        x = x.transpose(1, 2).contiguous().view(B, -1, self.n_heads * self.d_k)
        return self.linears[-1](x), weights


class DecoderLayer(nn.Module):
    def __init__(self, d, h, drop):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, h, drop, batch_first=True)
        self.cross = RegionCrossAttention(d, h, drop)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, regions, region_mask, future):
        y = self.n1(x)
        x = x + self.self_attn(y, y, y, attn_mask=future, need_weights=False)[0]
        y, w = self.cross(self.n2(x), regions, region_mask)
        x = x + y
        return x + self.ff(self.n3(x)), w


class CaptionNet(nn.Module):
    def __init__(self, vocab, feat=64, d=32, h=4, layers=2, drop=0.1, max_len=40):
        super().__init__()
        self.feat, self.emb = nn.Linear(feat, d), nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.zeros(max_len, d))
        self.layers = nn.ModuleList(DecoderLayer(d, h, drop) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, feats, region_mask, caption):
        T = caption.size(1)
        future = torch.ones(T, T, dtype=torch.bool).triu(1)
        r, x = self.feat(feats), self.emb(caption) + self.pos[:T]
        maps = []
        for l in self.layers:
            x, w = l(x, r, region_mask, future)
            maps.append(w)
        return self.out(x), maps[-1].mean(1)


if __name__ == "__main__":
    rm = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1]])
    y, m = CaptionNet(50)(torch.randn(2, 6, 64), rm, torch.randint(0, 50, (2, 5)))
    print(y.shape, m.shape)
