"""Image captioning decoder (Show, Attend and Tell, soft attention), one word at a time.

    word    (B,)        previous word
    hc      (h, c)      LSTM state, each (B, H)
    pixels  (P, B, E)   CNN features of the P image positions, position first
    returns logits (B, V), (h, c), alpha (P, B): for every image a distribution over its P positions

    alpha = softmax over the positions of  w . relu( W_e pixel + W_h h );  gated context as in the paper
"""
import torch
from torch import nn


class CaptionStep(nn.Module):
    def __init__(self, vocab=40, emb=12, enc=20, hid=16, att=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb)
        self.enc_att = nn.Linear(enc, att)
        self.dec_att = nn.Linear(hid, att)
        self.full_att = nn.Linear(att, 1)
        self.f_beta = nn.Linear(hid, enc)
        self.lstm = nn.LSTMCell(emb + enc, hid)
        self.fc = nn.Linear(hid, vocab)

    def attend(self, pixels, h):
        att = self.full_att(torch.relu(self.enc_att(pixels) + self.dec_att(h))).squeeze(2)
        alpha = torch.softmax(att, dim=1)
        return (pixels * alpha.unsqueeze(2)).sum(dim=0), alpha

    def forward(self, word, hc, pixels):
        h, c = hc
        awe, alpha = self.attend(pixels, h)
        awe = torch.sigmoid(self.f_beta(h)) * awe
        h, c = self.lstm(torch.cat([self.embed(word), awe], dim=1), (h, c))
        return self.fc(h), (h, c), alpha
