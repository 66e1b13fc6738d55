"""Automatic commentary for curling: stone trajectories in, sentence out.

Decoder: LSTM with input feeding, "general" score of Luong et al. (2015):

    score(h_t, h_s) = h_t' W h_s,    c_t = sum_s a_s h_s,    h~_t = tanh(W_c [c_t ; h_t])

Luong's scores carry no scale.
"""
from typing import List, Optional, Tuple

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

HOUSE_RADIUS_M = 1.829
HOG_TO_TEE_M = 6.401


def in_house(xy: torch.Tensor) -> torch.Tensor:
    return xy.norm(dim=-1) <= HOUSE_RADIUS_M


class TrajectoryEncoder(nn.Module):
    def __init__(self, size: int):
        super().__init__()
        self.lstm = nn.LSTM(4, size, batch_first=True)

    def forward(self, stones: torch.Tensor, n: torch.Tensor):
        packed = pack_padded_sequence(stones, n.cpu(), batch_first=True, enforce_sorted=False)
        out, state = self.lstm(packed)
        return pad_packed_sequence(out, batch_first=True, total_length=stones.size(1))[0], state


class LuongGeneral(nn.Module):
    """h_t [B, H], source [B, S, H], n [B] true lengths -> (attentional vector [B, H], weights [B, S])"""

    def __init__(self, size: int):
        super().__init__()
        self.W = nn.Linear(size, size, bias=False)
        self.W_c = nn.Linear(2 * size, size, bias=False)

    def forward(self, h_t: torch.Tensor, source: torch.Tensor,
                n: Optional[torch.Tensor] = None) -> Tuple[torch.Tensor, torch.Tensor]:
        score = torch.bmm(self.W(source), h_t.unsqueeze(2)).squeeze(2)
        if n is not None:
            beyond = torch.arange(source.size(1), device=n.device)[None] >= n[:, None]
            score = score.masked_fill(beyond, float("-inf"))
        a = score.softmax(dim=1)
        c_t = torch.einsum("bs,bsh->bh", a, source)
        return torch.tanh(self.W_c(torch.cat((c_t, h_t), dim=1))), a


class Commentator(nn.Module):
    def __init__(self, vocab: int, size: int = 48, emb: int = 32, p: float = 0.2):
        super().__init__()
        self.encoder = TrajectoryEncoder(size)
        self.emb = nn.Embedding(vocab, emb)
        self.cell = nn.LSTMCell(emb + size, size)
        self.att = LuongGeneral(size)
        self.drop = nn.Dropout(p)
        self.out = nn.Linear(size, vocab, bias=False)

    def forward(self, stones, n, words):
        source, (h, c) = self.encoder(stones, n)
        h, c = h[0], c[0]
        feed = torch.zeros_like(h)
        logits: List[torch.Tensor] = []
        for t in range(words.size(1)):
            h, c = self.cell(torch.cat((self.emb(words[:, t]), feed), dim=1), (h, c))
            feed, _ = self.att(h, source, n)
            logits.append(self.out(self.drop(feed)))
        return torch.stack(logits, 1)

    @torch.no_grad()
    def say(self, stones, n, bos: int, eos: int, limit: int = 25) -> List[int]:
        source, (h, c) = self.encoder(stones, n)
        h, c, feed = h[0], c[0], torch.zeros_like(h[0])
        word, said = torch.tensor([bos]), []
        while len(said) < limit:
            h, c = self.cell(torch.cat((self.emb(word), feed), dim=1), (h, c))
            feed, _ = self.att(h, source, n)
            word = self.out(feed).argmax(1)
            if word.item() == eos:
                break
            said.append(word.item())
        return said
