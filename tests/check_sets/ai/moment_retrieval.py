"""Moment retrieval in lecture videos: clips look at the words of the question.

Each (clip, word) pair can be blocked separately: words in the padding are blocked
for all clips, and clips with a transcript only look at the words up to the time
at which the question was cut.
"""
import torch
from torch import nn


def pair_block(text_len, clip_limit, n_words):
    """text_len [B], clip_limit [B, T] (at least 1) -> bool [B, T, L], True = may NOT be looked at"""
    w = torch.arange(n_words, device=text_len.device)
    return (w >= text_len[:, None, None]) | (w >= clip_limit[:, :, None])


class FFN(nn.Module):
    def __init__(self, d, mult=4, p=0.1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, mult * d), nn.ReLU(), nn.Dropout(p), nn.Linear(mult * d, d))

    def forward(self, x):
        return self.net(x)


class TextToVideoLayer(nn.Module):
    def __init__(self, d_model=256, nhead=8, dropout=0.1):
        super().__init__()
        self.nhead = nhead
        self.cross = nn.MultiheadAttention(d_model, nhead, dropout=dropout, batch_first=True)
        self.ffn = FFN(d_model, p=dropout)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)

    def forward(self, clips, words, blocked=None, pos=None):
        """
        clips    [B, T, C]
        words    [B, L, C]
        blocked  [B, T, L] bool, True = this clip must not use this word
        """
        q = clips if pos is None else clips + pos
        attn_mask = None
        if blocked is not None:
            attn_mask = blocked.repeat(self.nhead, 1, 1)
        y, att = self.cross(q, words, words, attn_mask=attn_mask)
        clips = self.norm1(clips + self.drop(y))
        clips = self.norm2(clips + self.drop(self.ffn(clips)))
        return clips, att


class SaliencyHead(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.d = d

    def forward(self, clips, sentence):
        return (self.a(clips) * self.b(sentence).unsqueeze(1)).sum(-1) / self.d ** 0.5


class MomentModel(nn.Module):
    def __init__(self, v_dim=512, t_dim=300, d_model=256, nhead=8, layers=2, max_clips=75):
        super().__init__()
        self.v_proj = nn.Sequential(nn.LayerNorm(v_dim), nn.Linear(v_dim, d_model))
        self.t_proj = nn.Sequential(nn.LayerNorm(t_dim), nn.Linear(t_dim, d_model))
        self.pos = nn.Parameter(torch.zeros(1, max_clips, d_model))
        self.layers = nn.ModuleList(TextToVideoLayer(d_model, nhead) for _ in range(layers))
        self.span = nn.Linear(d_model, 2)
        self.saliency = SaliencyHead(d_model)

    def forward(self, video, text, text_len, clip_limit):
        v, t = self.v_proj(video), self.t_proj(text)
        blocked = pair_block(text_len, clip_limit, text.size(1))
        maps = []
        for layer in self.layers:
            v, att = layer(v, t, blocked, self.pos[:, :v.size(1)])
            maps.append(att)
        real = (torch.arange(t.size(1), device=t.device)[None, :] < text_len[:, None]).unsqueeze(-1)
        sentence = (t * real).sum(1) / text_len[:, None]
        return {"span": self.span(v).sigmoid(), "saliency": self.saliency(v, sentence), "maps": maps}


def span_iou(a, b):
    left, right = torch.maximum(a[..., 0], b[..., 0]), torch.minimum(a[..., 1], b[..., 1])
    inter = (right - left).clamp(min=0)
    union = (a[..., 1] - a[..., 0]) + (b[..., 1] - b[..., 0]) - inter
    return inter / union.clamp(min=1e-6)
