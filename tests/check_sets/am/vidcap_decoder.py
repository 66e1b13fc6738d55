"""Video captioning: transformer decoder over frame features. Clips have different numbers of frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FrameAttention(nn.Module):
    """Words (query) attend to frames (memory).

    frame_pad [B, S]: True where the clip is already over. Returns the output and, for the heat maps of
    the demo, the attention distribution over the frames [B, H, T, S].
    """

    def __init__(self, d_model, n_heads, dropout=0.1):
        super().__init__()
        self.h, self.d = n_heads, d_model // n_heads
        self.q, self.k, self.v = (nn.Linear(d_model, d_model) for _ in range(3))
        self.o = nn.Linear(d_model, d_model)
        self.p = dropout

    def _fold(self, x):
        B, L, _ = x.shape
        return x.view(B, L, self.h, self.d).permute(0, 2, 1, 3).reshape(B * self.h, L, self.d)

    def forward(self, words, frames, frame_pad):
        B, T, C = words.shape
        S = frames.shape[1]
        q, k, v = self._fold(self.q(words)), self._fold(self.k(frames)), self._fold(self.v(frames))
        scores = torch.bmm(q, k.transpose(1, 2)) * self.d ** -0.5
        pad = frame_pad.unsqueeze(1).repeat(self.h, 1, 1)
        scores = scores.masked_fill(pad, torch.finfo(scores.dtype).min)
        attn = F.softmax(scores, dim=-1)
        attn = F.dropout(attn, self.p, training=self.training)
        y = torch.bmm(attn, v).view(B, self.h, T, self.d).permute(0, 2, 1, 3).reshape(B, T, C)
        return self.o(y), attn.view(B, self.h, T, S)


class CaptionLayer(nn.Module):
    def __init__(self, d, h, p=0.1):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d, h, p, batch_first=True)
        self.cross = FrameAttention(d, h, p)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Dropout(p), nn.Linear(4 * d, d))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(d) for _ in range(3))

    def forward(self, x, frames, frame_pad):
        T = x.shape[1]
        future = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)
        h = self.n1(x)
        x = x + self.self_attn(h, h, h, attn_mask=future, need_weights=False)[0]
        y, heat = self.cross(self.n2(x), frames, frame_pad)
        x = x + y
        return x + self.ff(self.n3(x)), heat


class Captioner(nn.Module):
    def __init__(self, vocab, feat=128, d=64, heads=4, layers=2, max_len=40):
        super().__init__()
        self.inp = nn.Linear(feat, d)
        self.emb = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(max_len, d) * 0.02)
        self.layers = nn.ModuleList(CaptionLayer(d, heads) for _ in range(layers))
        self.out = nn.Linear(d, vocab)

    def forward(self, feats, lengths, ids):
        frames = self.inp(feats)
        pad = torch.arange(feats.shape[1], device=feats.device)[None] >= lengths[:, None]
        x = self.emb(ids) + self.pos[: ids.shape[1]]
        heat = None
        for lay in self.layers:
            x, heat = lay(x, frames, pad)
        return self.out(x), heat

    @torch.no_grad()
    def greedy(self, feats, lengths, bos=1, n=15):
        ids = torch.full((len(feats), 1), bos)
        for _ in range(n):
            logits, _ = self(feats, lengths, ids)
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
        return ids
