"""Chest X-ray report generation (IU X-Ray), Show-Attend-Tell style.

encoder : any CNN, 7x7 grid of annotation vectors a_1..a_49
decoder : LSTM; at each word the grid is read with soft additive attention,
          e_i = f_att(a_i, h_{t-1}), alpha = softmax(e), z = sum_i alpha_i a_i
"""
import torch
import torch.nn as nn


class GridEncoder(nn.Module):
    def __init__(self, ch=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, ch, 3, 2, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(7))

    def forward(self, xray):
        return self.body(xray).flatten(2).permute(0, 2, 1)


class SpatialAttention(nn.Module):
    """f_att of the paper, a one-hidden-layer perceptron over annotation and state"""

    def __init__(self, ann_dim, state_dim, att_dim, n_loc=49):
        super().__init__()
        self.att_state = nn.Linear(state_dim, att_dim)
        self.att_out = nn.Linear(att_dim, n_loc)
        self.beta = nn.Linear(state_dim, 1)

    def forward(self, ann, h):
        """ann [B, L, ann_dim], h [B, state_dim]"""
        e = self.att_out(torch.tanh(self.att_state(h)))
        alpha = torch.softmax(e, dim=1)
        z = torch.bmm(alpha.unsqueeze(1), ann).squeeze(1)
        gate = torch.sigmoid(self.beta(h))
        return gate * z, alpha


class ReportDecoder(nn.Module):
    def __init__(self, vocab, emb=64, ann_dim=64, state=128, att=64):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.attention = SpatialAttention(ann_dim, state, att)
        self.init_h = nn.Linear(ann_dim, state)
        self.init_c = nn.Linear(ann_dim, state)
        self.lstm = nn.LSTMCell(emb + ann_dim, state)
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(state, vocab)

    def start(self, ann):
        m = ann.mean(1)
        return torch.tanh(self.init_h(m)), torch.tanh(self.init_c(m))

    def step(self, word, state, ann):
        h, c = state
        z, alpha = self.attention(ann, h)
        h, c = self.lstm(torch.cat([self.embed(word), z], 1), (h, c))
        return self.fc(self.drop(h)), (h, c), alpha

    def forward(self, ann, words, lengths):
        """teacher forcing; lengths sorted in decreasing order (list of int)"""
        state = self.start(ann)
        T = max(lengths) - 1
        out = ann.new_zeros(ann.size(0), T, self.fc.out_features)
        maps = ann.new_zeros(ann.size(0), T, ann.size(1))
        for t in range(T):
            n = sum(l - 1 > t for l in lengths)
            o, state, a = self.step(words[:n, t], (state[0][:n], state[1][:n]), ann[:n])
            out[:n, t] = o
            maps[:n, t] = a
        return out, maps


def doubly_stochastic(maps, lam=1.0):
    return lam * ((1.0 - maps.sum(dim=1)) ** 2).mean()
