"""Show, Attend and Tell (Xu et al. 2015), soft attention, Flickr8k.

Second assignment of the vision & language course. Image features are precomputed
(VGG conv5 grid, 196 x 512, smaller here). `sample` also gives the attention maps,
which plot_attention.ipynb upsamples to 224 x 224 and overlays on the picture.
"""
import torch
import torch.nn as nn


class SoftAttention(nn.Module):
    def __init__(self, feat_dim, hid_dim, att_dim):
        super().__init__()
        self.feat_att = nn.Linear(feat_dim, att_dim)
        self.hid_att = nn.Linear(hid_dim, att_dim)
        self.score = nn.Linear(att_dim, 1)

    def forward(self, feats, proj, h):
        att = torch.tanh(proj + self.hid_att(h).unsqueeze(1))
        att = self.score(att).squeeze(2)                            # (batch, regions)
        context = (feats * torch.softmax(att, dim=1).unsqueeze(2)).sum(dim=1)
        return context, att


class CaptionDecoder(nn.Module):
    """LSTM decoder with soft attention over image regions.

    forward(feats, captions) -> logits (batch, T, vocab) and the attention weights
    alphas (batch, T, regions), each a distribution over the regions.
    """

    def __init__(self, vocab_size, feat_dim=512, emb_dim=128, hid_dim=256, att_dim=128, p=0.3):
        super().__init__()
        self.hid_dim = hid_dim
        self.embedding = nn.Embedding(vocab_size, emb_dim)
        self.attention = SoftAttention(feat_dim, hid_dim, att_dim)
        self.lstm = nn.LSTMCell(emb_dim + feat_dim, hid_dim)
        self.init_h = nn.Linear(feat_dim, hid_dim)
        self.init_c = nn.Linear(feat_dim, hid_dim)
        self.beta = nn.Linear(hid_dim, feat_dim)        # gating scalar made a vector, as in the released code
        self.out = nn.Linear(hid_dim, vocab_size)
        self.dropout = nn.Dropout(p)

    def init_state(self, feats):
        mean = feats.mean(dim=1)
        return torch.tanh(self.init_h(mean)), torch.tanh(self.init_c(mean))

    def step(self, token, h, c, feats, proj):
        context, alpha = self.attention(feats, proj, h)
        context = torch.sigmoid(self.beta(h)) * context
        h, c = self.lstm(torch.cat([self.embedding(token), context], dim=1), (h, c))
        return self.out(self.dropout(h)), h, c, alpha

    def forward(self, feats, captions):
        h, c = self.init_state(feats)
        proj = self.attention.feat_att(feats)
        logits, alphas = [], []
        for t in range(captions.size(1)):
            o, h, c, alpha = self.step(captions[:, t], h, c, feats, proj)
            logits.append(o)
            alphas.append(alpha)
        return torch.stack(logits, dim=1), torch.stack(alphas, dim=1)

    @torch.no_grad()
    def sample(self, feats, start=1, end=2, max_len=20):
        h, c = self.init_state(feats)
        proj = self.attention.feat_att(feats)
        token = torch.full((feats.size(0),), start, dtype=torch.long, device=feats.device)
        words, maps = [], []
        for _ in range(max_len):
            o, h, c, alpha = self.step(token, h, c, feats, proj)
            token = o.argmax(dim=1)
            words.append(token)
            maps.append(alpha)
            if (token == end).all():
                break
        return torch.stack(words, 1), torch.stack(maps, 1)
