# Image captioning: LSTM decoder that looks at image regions (Flickr8k, course project)
import torch
import torch.nn as nn


class EncoderCNN(nn.Module):
    """any feature map -> regions"""

    def __init__(self, c_in, dim):
        super().__init__()
        self.conv = nn.Conv2d(c_in, dim, 1)

    def forward(self, fmap):
        return self.conv(fmap).flatten(2).transpose(1, 2)


class RegionAttention(nn.Module):
    """Bahdanau attention ("Show, Attend and Tell"):
    score(h, a_i) = v^T f(W_h h + W_a a_i), alpha = softmax over the regions i
    """

    def __init__(self, region_dim, hidden_dim, att_dim):
        super().__init__()
        self.U = nn.Linear(hidden_dim, att_dim)
        self.W = nn.Linear(region_dim, att_dim)
        self.v = nn.Linear(att_dim, 1)

    def forward(self, regions, hidden):
        U_h = self.U(hidden).unsqueeze(1)   # (B, 1, att)
        W_s = self.W(regions)               # (B, R, att)
        att = W_s + U_h
        e = self.v(att).squeeze(2)          # (B, R)
        alpha = torch.softmax(e, dim=1)
        context = (regions * alpha.unsqueeze(2)).sum(1)
        return context, alpha


class CaptionDecoder(nn.Module):
    def __init__(self, vocab, region_dim=32, emb=24, hidden=48, att=20):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb)
        self.attention = RegionAttention(region_dim, hidden, att)
        self.init_h = nn.Linear(region_dim, hidden)
        self.init_c = nn.Linear(region_dim, hidden)
        self.cell = nn.LSTMCell(emb + region_dim, hidden)
        self.fc = nn.Linear(hidden, vocab)

    def forward(self, regions, captions):
        h, c = self.init_h(regions.mean(1)), self.init_c(regions.mean(1))
        logits, alphas = [], []
        for t in range(captions.size(1) - 1):
            ctx, a = self.attention(regions, h)
            h, c = self.cell(torch.cat([self.emb(captions[:, t]), ctx], 1), (h, c))
            logits.append(self.fc(h))
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)
