"""CRNN + attention decoder for printed text lines (Bahdanau style)."""
import torch
import torch.nn as nn

CHARS = "0123456789abcdefghijklmnopqrstuvwxyz"
GO, END = len(CHARS), len(CHARS) + 1


class LineEncoder(nn.Module):
    """[B, 1, 32, W] -> [B, W // 4, hid]"""

    def __init__(self, hid=64):
        super().__init__()
        self.cnn = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, hid, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d((1, None)))
        self.rnn = nn.GRU(hid, hid // 2, bidirectional=True, batch_first=True)

    def forward(self, img):
        f = self.cnn(img).squeeze(2).transpose(1, 2)
        return self.rnn(f)[0]


class AlignCell(nn.Module):
    """One decoding step: e_t = v^T tanh(W h_enc + U s), context = sum softmax(e) h_enc, then GRU."""

    def __init__(self, enc, hid, n_out):
        super().__init__()
        self.W = nn.Linear(enc, hid, bias=False)
        self.U = nn.Linear(hid, hid)
        self.v = nn.Linear(hid, 1, bias=False)
        self.rnn = nn.GRUCell(enc + n_out, hid)

    def forward(self, state, memory, memory_proj, lengths, prev):
        T = memory.size(1)
        e = self.v(torch.tanh(memory_proj + self.U(state).unsqueeze(1))).squeeze(2)   # [B, T]
        beyond = torch.arange(T, device=e.device)[None, :] >= lengths[:, None]
        e = e.masked_fill(beyond, -float("inf"))      # lengths >= 1
        alpha = torch.softmax(e, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), memory).squeeze(1)
        state = self.rnn(torch.cat([context, prev], 1), state)
        return state, alpha


class TextReader(nn.Module):
    def __init__(self, hid=64, max_chars=24):
        super().__init__()
        self.n_out = len(CHARS) + 2
        self.enc = LineEncoder(hid)
        self.cell = AlignCell(hid, hid, self.n_out)
        self.gen = nn.Linear(hid, self.n_out)
        self.max_chars = max_chars

    def onehot(self, y):
        return nn.functional.one_hot(y, self.n_out).float()

    def forward(self, img, widths, target=None):
        """widths: pixels of each image before padding (at least 4)."""
        mem = self.enc(img)
        proj = self.cell.W(mem)
        lengths = (widths // 4).clamp(min=1, max=mem.size(1))
        s = mem.new_zeros(img.size(0), self.cell.rnn.hidden_size)
        y = torch.full((img.size(0),), GO, device=img.device)
        steps = self.max_chars if target is None else target.size(1)
        logits, maps = [], []
        for t in range(steps):
            s, a = self.cell(s, mem, proj, lengths, self.onehot(y))
            o = self.gen(s)
            y = o.argmax(1) if target is None else target[:, t]
            logits.append(o)
            maps.append(a)
        return torch.stack(logits, 1), torch.stack(maps, 1)
