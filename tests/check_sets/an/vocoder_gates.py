"""WaveNet style residual stack of the vocoder (conditioned on mel frames)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalConv(nn.Module):
    def __init__(self, cin, cout, k, dilation):
        super().__init__()
        self.left = (k - 1) * dilation
        self.conv = nn.Conv1d(cin, cout, k, dilation=dilation)

    def forward(self, x):
        return self.conv(F.pad(x, (self.left, 0)))


class GatedUnit(nn.Module):
    """tanh(filter) * sigmoid(gate), one residual and one skip output"""

    def __init__(self, ch, mel, skip, k=3, dilation=1):
        super().__init__()
        self.conv = CausalConv(ch, 2 * ch, k, dilation)
        self.cond = nn.Conv1d(mel, 2 * ch, 1)
        self.res = nn.Conv1d(ch, ch, 1)
        self.skip = nn.Conv1d(ch, skip, 1)

    def forward(self, x, mel):
        f, g = (self.conv(x) + self.cond(mel)).chunk(2, dim=1)
        h = torch.tanh(f) * torch.sigmoid(g)
        return (x + self.res(h)) * 0.5 ** 0.5, self.skip(h)


class GatedVocoder(nn.Module):
    """wav (B, T) mu-law ids, mel (B, n_mel, frames) -> logits (B, 256, T)"""

    def __init__(self, ch=16, n_mel=20, skip=32, blocks=2, per_block=4, hop=8):
        super().__init__()
        self.hop = hop
        self.emb = nn.Embedding(256, ch)
        self.units = nn.ModuleList(
            GatedUnit(ch, n_mel, skip, dilation=2 ** i) for _ in range(blocks) for i in range(per_block))
        self.post = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, wav, mel):
        x = self.emb(F.pad(wav[:, :-1], (1, 0), value=128)).transpose(1, 2)
        mel = mel.repeat_interleave(self.hop, dim=2)[..., : x.size(2)]
        total = 0
        for u in self.units:
            x, s = u(x, mel)
            total = total + s
        return self.post(total * len(self.units) ** -0.5)

    @torch.no_grad()
    def sample(self, mel, temperature=1.0):
        n = mel.size(2) * self.hop
        wav = torch.full((mel.size(0), n), 128, dtype=torch.long)
        for t in range(n):
            p = torch.softmax(self(wav[:, : t + 1], mel[..., : t // self.hop + 1])[..., t] / temperature, dim=1)
            wav[:, t] = torch.multinomial(p, 1)[:, 0]
        return wav


def mu_law(x, mu=255):
    y = torch.sign(x) * torch.log1p(mu * x.abs()) / torch.log1p(torch.tensor(float(mu)))
    return ((y + 1) / 2 * mu + 0.5).long()
