"""RNA 2A3/DMS reactivity (Kaggle notebook -> script). pair bias from BPP matrix."""
import torch, torch.nn as nn


class BiasedSelfAttention(nn.Module):
    '''
    x    : [B, L, D]
    bpp  : [B, L, L]  log-odds of pairing, shared by all layers of the model
    mask : [B, L] bool, True = nucleotide exists
    head h adds  gamma_h * bpp  to its scores
    '''

    def __init__(self, dim, nhead, drop=0.0):
        super().__init__()
        self.nhead = nhead
        self.in_proj = nn.Linear(dim, dim * 3)
        self.out_proj = nn.Linear(dim, dim)
        self.gamma = nn.Parameter(torch.ones(nhead))
        self.drop = nn.Dropout(drop)

    def forward(self, x, bpp, mask=None):
        B, L, D = x.shape
        q, k, v = self.in_proj(x).view(B, L, 3, self.nhead, D // self.nhead).permute(2, 0, 3, 1, 4)
        bias = bpp.unsqueeze(1)
        if mask is not None:
            bias.masked_fill_(~mask[:, None, None, :], -1e4)
        s = q @ k.transpose(-1, -2) * (D // self.nhead) ** -0.5
        s = s + self.gamma.view(1, -1, 1, 1) * bias
        if mask is not None:
            s = s.masked_fill(~mask[:, None, None, :], float('-inf'))
        a = s.softmax(-1)
        o = self.drop(a) @ v
        return self.out_proj(o.transpose(1, 2).reshape(B, L, D))


class Layer(nn.Module):
    def __init__(self, dim, nhead):
        super().__init__()
        self.n1 = nn.LayerNorm(dim)
        self.attn = BiasedSelfAttention(dim, nhead)
        self.n2 = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x, bpp, mask=None):
        x = x + self.attn(self.n1(x), bpp, mask)
        x = x + self.conv(x.mT).mT
        return x + self.mlp(self.n2(x))


class RNAModel(nn.Module):
    def __init__(self, dim=64, depth=2, nhead=4):
        super().__init__()
        self.emb = nn.Embedding(4, dim)
        self.layers = nn.ModuleList([Layer(dim, nhead) for _ in range(depth)])
        self.head = nn.Linear(dim, 2)

    def forward(self, seq, bpp, mask=None):
        x = self.emb(seq)
        for l in self.layers:
            x = l(x, bpp, mask)
        return self.head(x)


def mae_loss(pred, target, snr):
    """clipped MAE, only where a reactivity was measured"""
    ok = ~torch.isnan(target)
    err = (pred - target.clamp(0, 1)).abs()
    w = (snr > 1).float()[:, None, None].expand_as(err)
    return (err[ok] * w[ok]).mean()


if __name__ == '__main__':
    seq = torch.randint(0, 4, (2, 30))
    bpp = torch.rand(2, 30, 30).log1p()
    print(RNAModel()(seq, bpp).shape)
