"""Image captioning decoder, "Show, Attend and Tell" (Xu et al. 2015), soft attention.

feats (B, P, D): P annotation vectors of an image (14*14 = 196 in the paper, any P <= max_p here)
words (B, T): the caption, teacher forcing.

At every step the attention network compares the decoder state with each of the P annotation
vectors: e_i = f_att(a_i, h_{t-1}), an MLP of the vector AND the state; alpha = softmax(e);
z = sum_i alpha_i a_i. Returns logits (B, T, V) and alphas (B, T, P).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CaptionDecoder(nn.Module):
    def __init__(self, vocab, embed=24, feat=32, hidden=48, max_p=196):
        super().__init__()
        self.max_p = max_p
        self.embedding = nn.Embedding(vocab, embed)
        self.h0, self.c0 = nn.Linear(feat, hidden), nn.Linear(feat, hidden)
        self.attn_in = nn.Linear(embed + hidden, 64)
        self.attn = nn.Linear(64, max_p)
        self.gate = nn.Linear(hidden, feat)
        self.lstm = nn.LSTMCell(embed + feat, hidden)
        self.out = nn.Linear(hidden, vocab)

    def f_att(self, feats, word, h):
        e = torch.tanh(self.attn_in(torch.cat((word, h), dim=1)))
        e = self.attn(e)[:, : feats.size(1)]
        return F.softmax(e, dim=1)

    def forward(self, feats, words):
        mean = feats.mean(1)
        h, c = torch.tanh(self.h0(mean)), torch.tanh(self.c0(mean))
        emb = self.embedding(words)
        logits, alphas = [], []
        for t in range(words.size(1)):
            alpha = self.f_att(feats, emb[:, t], h)
            z = torch.einsum("bp,bpd->bd", alpha, feats)
            z = torch.sigmoid(self.gate(h)) * z
            h, c = self.lstm(torch.cat((emb[:, t], z), dim=1), (h, c))
            logits.append(self.out(h))
            alphas.append(alpha)
        return torch.stack(logits, 1), torch.stack(alphas, 1)
