"""SASRec (Kang & McAuley 2018), compact PyTorch version for MovieLens-1M.

seq : LongTensor (batch, maxlen). Item ids 1..n_items, LEFT padded with 0.
Returns features (batch, maxlen, d); features[:, t] describes the user after item t and is
trained to predict item t+1, so it may depend on items 0..t only.  Padded positions are
never attended by real ones, and their features are 0.
"""
import torch
import torch.nn as nn


class SASRec(nn.Module):
    def __init__(self, n_items, maxlen=50, d=48, blocks=2, heads=1, p=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(n_items + 1, d, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, d)
        self.drop = nn.Dropout(p)
        self.heads = heads
        self.ln_q = nn.ModuleList(nn.LayerNorm(d) for _ in range(blocks))
        self.wq = nn.ModuleList(nn.Linear(d, d) for _ in range(blocks))
        self.wkv = nn.ModuleList(nn.Linear(d, 2 * d) for _ in range(blocks))
        self.ln_f = nn.ModuleList(nn.LayerNorm(d) for _ in range(blocks))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Dropout(p), nn.Linear(d, d)) for _ in range(blocks))
        self.last = nn.LayerNorm(d)

    def attend(self, i, x, allowed):
        B, L, D = x.shape
        h = self.heads
        Q = self.ln_q[i](x)                       # only the query is normalised, as in the paper's code
        q = self.wq[i](Q).view(B, L, h, D // h).transpose(1, 2)
        k, v = self.wkv[i](x).view(B, L, 2, h, D // h).permute(2, 0, 3, 1, 4)
        s = (q @ k.mT) / (D // h) ** 0.5
        s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
        w = self.drop(s.softmax(-1))
        return Q + (w @ v).transpose(1, 2).reshape(B, L, D)

    def forward(self, seq):
        B, L = seq.shape
        real = seq != 0
        x = self.item_emb(seq) * self.item_emb.embedding_dim ** 0.5
        x = self.drop(x + self.pos_emb.weight[:L]) * real.unsqueeze(-1)
        past = torch.ones(L, L, dtype=torch.bool, device=seq.device).tril()
        allowed = past & real[:, None, None, :]   # (B, 1, L, L), True = may look
        for i in range(len(self.ff)):
            x = self.attend(i, x, allowed)
            x = self.ln_f[i](x)
            x = x + self.ff[i](x)
            x = x * real.unsqueeze(-1)
        return self.last(x) * real.unsqueeze(-1)

    def predict(self, seq, candidates):
        """scores of candidate items (batch, n) for the next step"""
        return torch.einsum('bd,bnd->bn', self.forward(seq)[:, -1], self.item_emb(candidates))
