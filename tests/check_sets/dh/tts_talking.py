import torch
from torch import nn


class PhonemeMixer(nn.Module):
    """Talking-heads self-attention for the phoneme encoder of the TTS front end.

    x (B, L, dim), pad (B, L) True at padding or None.
    Heads are mixed linearly before and after the softmax.
    """

    def __init__(self, opts: dict):
        super().__init__()
        dim, self.h = opts["dim"], opts.get("heads", 4)
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        eye = torch.eye(self.h)
        self.before = nn.Parameter(eye + 0.1 * torch.randn(self.h, self.h))
        self.after = nn.Parameter(eye + 0.1 * torch.randn(self.h, self.h))
        self.drop = nn.Dropout(opts.get("dropout", 0.0))

    def forward(self, x, pad=None):
        B, L, D = x.shape
        q, k, v = (z.reshape(B, L, self.h, D // self.h) for z in self.in_proj(x).chunk(3, -1))
        s = torch.einsum("bihd,bjhd->bhij", q, k) * (D // self.h) ** -0.5
        s = torch.einsum("bhij,hg->bgij", s, self.before)
        if pad is not None:
            s = s.masked_fill(pad[:, None, None, :], torch.finfo(s.dtype).min)
        a = torch.softmax(s, -1)
        a = torch.einsum("bhij,hg->bgij", a, self.after)
        y = torch.einsum("bhij,bjhd->bihd", self.drop(a), v)
        return self.out_proj(y.reshape(B, L, D))
