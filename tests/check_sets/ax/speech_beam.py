"""Attention decoder and batched beam search for the call centre recogniser.

Rows of the decoder are utterance * beam + b.  After every step the caches have to
follow the hypotheses: the row of a new hypothesis takes the keys and values of its parent.
"""
from typing import List

import torch
from torch import nn


class DecoderSelfAttention(nn.Module):
    """One token for each row and step; the cache holds everything said so far."""

    def __init__(self, dim, heads, beam):
        super().__init__()
        self.h, self.dk, self.beam = heads, dim // heads, beam
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)
        self.clear()

    def clear(self):
        self.keys = self.values = None

    def forward(self, x):
        """x [rows, dim]"""
        q, k, v = self.qkv(x).view(-1, 3, self.h, 1, self.dk).unbind(1)
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        w = (q @ self.keys.transpose(-1, -2) / self.dk ** 0.5).softmax(-1)
        return self.o((w @ self.values).flatten(1))

    def follow(self, parents):
        """parents [utterances, beam]: number of the parent hypothesis (0 .. beam-1) inside the utterance"""
        rows = parents.reshape(-1)
        self.keys = self.keys.index_select(0, rows)
        self.values = self.values.index_select(0, rows)


class AudioAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.dk = heads, dim // heads
        self.q, self.kv, self.o = nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(dim, dim)

    def prepare(self, audio, silent):
        """audio [rows, T, dim], silent [rows, T] True = padding frame"""
        k, v = self.kv(audio).unflatten(-1, (2, self.h, self.dk)).permute(2, 0, 3, 1, 4)
        return k, v, silent

    def forward(self, x, prepared):
        k, v, silent = prepared
        q = self.q(x).view(-1, self.h, 1, self.dk)
        s = q @ k.transpose(-1, -2) / self.dk ** 0.5
        s = s.masked_fill(silent[:, None, None, :], torch.finfo(s.dtype).min)
        return self.o((s.softmax(-1) @ v).flatten(1))


class SpeechDecoder(nn.Module):
    def __init__(self, units, dim=64, heads=4, layers=2, beam=4, max_len=200):
        super().__init__()
        self.beam, self.units = beam, units
        self.emb, self.pos = nn.Embedding(units, dim), nn.Embedding(max_len, dim)
        self.self_att = nn.ModuleList(DecoderSelfAttention(dim, heads, beam) for _ in range(layers))
        self.audio_att = nn.ModuleList(AudioAttention(dim, heads) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.ReLU(), nn.Linear(4 * dim, dim))
                                for _ in range(layers))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.out = nn.Linear(dim, units)

    def step(self, ids, t, prepared):
        x = self.emb(ids) + self.pos.weight[t]
        for i in range(len(self.ff)):
            x = x + self.self_att[i](self.n1[i](x))
            x = x + self.audio_att[i](self.n2[i](x), prepared[i])
            x = x + self.ff[i](x)
        return self.out(x).log_softmax(-1)

    @torch.no_grad()
    def recognise(self, audio, silent, sos: int, eos: int, max_len=50, length_bonus=0.3) -> List[List[int]]:
        """audio [U, T, dim] -> best unit sequence for each utterance"""
        U, W, V = audio.size(0), self.beam, self.units
        audio, silent = audio.repeat_interleave(W, 0), silent.repeat_interleave(W, 0)
        prepared = [a.prepare(audio, silent) for a in self.audio_att]
        for a in self.self_att:
            a.clear()
        hyp = torch.full((U, W, 1), sos)
        score = torch.full((U, W), -float("inf"))
        score[:, 0] = 0.0
        for t in range(max_len):
            logp = self.step(hyp[:, :, -1].reshape(-1), t, prepared).view(U, W, V)
            ended = (hyp[:, :, 1:] == eos).any(-1)
            logp = torch.where(ended[..., None], torch.full_like(logp, -float("inf")), logp + length_bonus)
            logp[..., eos] = torch.where(ended, torch.zeros_like(score), logp[..., eos])
            score, flat = (score[..., None] + logp).flatten(1).topk(W, dim=1)
            parent, unit = flat // V, flat % V
            hyp = torch.cat([hyp.gather(1, parent[..., None].expand(-1, -1, hyp.size(-1))), unit[..., None]], dim=-1)
            for a in self.self_att:
                a.follow(parent)
            if (hyp[:, :, 1:] == eos).any(-1).all():
                break
        best = hyp[torch.arange(U), score.argmax(1)].tolist()
        return [[u for u in h[1:] if u != eos] for h in best]
