"""Show, Attend and Tell (Xu et al. 2015) on Flickr8k.

Soft additive attention: at every step each of the L = 14*14 image regions is scored against the LSTM
state and the context is the weighted sum of the region features.
"""
import torch
from torch import nn


class SoftAttention(nn.Module):
    """features [B, L, F], hidden [B, H], embedded [B, E] -> context [B, F], alpha [B, L]"""

    def __init__(self, feat_dim, hidden_dim, emb_dim, num_regions=196):
        super().__init__()
        self.attn = nn.Linear(emb_dim + hidden_dim, hidden_dim)
        self.score = nn.Linear(hidden_dim, num_regions)
        self.f_beta = nn.Linear(hidden_dim, feat_dim)

    def forward(self, features, hidden, embedded):
        e = self.score(torch.tanh(self.attn(torch.cat((embedded, hidden), dim=1))))
        alpha = torch.softmax(e, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), features).squeeze(1)
        gate = torch.sigmoid(self.f_beta(hidden))
        return gate * context, alpha


class CaptionDecoder(nn.Module):
    def __init__(self, vocab, feat_dim=512, emb_dim=128, hidden_dim=256, num_regions=196, p=0.3):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb_dim)
        self.attention = SoftAttention(feat_dim, hidden_dim, emb_dim, num_regions)
        self.init_h, self.init_c = nn.Linear(feat_dim, hidden_dim), nn.Linear(feat_dim, hidden_dim)
        self.lstm = nn.LSTMCell(emb_dim + feat_dim, hidden_dim)
        self.drop = nn.Dropout(p)
        self.fc = nn.Linear(hidden_dim, vocab)

    def start(self, features):
        m = features.mean(1)
        return torch.tanh(self.init_h(m)), torch.tanh(self.init_c(m))

    def forward(self, features, captions):
        h, c = self.start(features)
        logits, alphas = [], []
        for w in self.emb(captions[:, :-1]).unbind(1):
            ctx, a = self.attention(features, h, w)
            h, c = self.lstm(torch.cat([w, ctx], 1), (h, c))
            logits.append(self.fc(self.drop(h)))
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)

    @torch.no_grad()
    def greedy(self, features, bos=1, eos=2, max_len=20):
        h, c = self.start(features)
        tok = torch.full((features.size(0),), bos, dtype=torch.long, device=features.device)
        out = []
        for _ in range(max_len):
            w = self.emb(tok)
            ctx, _ = self.attention(features, h, w)
            h, c = self.lstm(torch.cat([w, ctx], 1), (h, c))
            tok = self.fc(h).argmax(-1)
            out.append(tok)
            if (tok == eos).all():
                break
        return torch.stack(out, 1)


def doubly_stochastic(alphas, lam=1.0):
    return lam * ((1.0 - alphas.sum(dim=1)) ** 2).mean()
