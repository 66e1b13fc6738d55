import torch
import torch.nn as nn


class Bunpou(nn.Module):
    """GPT-NeoX no chuui-sou. Kotoba wo hitotsu zutsu, mata wa matomete ireru.

    x: (B, T, D).  kioku: None, or (k, v) of everything read before, each (B, H, P, d).
    Calling it on a text in pieces gives the same rows as calling it once on the whole text.
    """

    def __init__(self, haba=32, atama=4, saidai=128):
        super().__init__()
        self.atama, self.d = atama, haba // atama
        self.qkv = nn.Linear(haba, 3 * haba)
        self.deguchi = nn.Linear(haba, haba)
        shuuha = 10000 ** (-torch.arange(0, self.d, 2) / self.d)
        kaku = torch.outer(torch.arange(saidai), shuuha)
        kaku = torch.cat([kaku, kaku], dim=-1)
        self.register_buffer("kosain", kaku.cos(), persistent=False)
        self.register_buffer("sain", kaku.sin(), persistent=False)

    def mawasu(self, z, basho):
        a, b = z.chunk(2, dim=-1)
        return z * self.kosain[basho] + torch.cat([-b, a], dim=-1) * self.sain[basho]

    def forward(self, x, kioku=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, self.atama, 3 * self.d).transpose(1, 2).chunk(3, dim=-1)
        mae = 0 if kioku is None else kioku[0].size(2)
        basho = torch.arange(T, device=x.device)
        q, k = self.mawasu(q, basho), self.mawasu(k, basho)
        if kioku is not None:
            k, v = torch.cat([kioku[0], k], dim=2), torch.cat([kioku[1], v], dim=2)
        mirai = torch.ones(T, mae + T, dtype=torch.bool, device=x.device).triu(mae + 1)
        s = torch.matmul(q, k.transpose(-1, -2)) / self.d ** 0.5
        w = s.masked_fill(mirai, float("-inf")).softmax(dim=-1)
        y = torch.matmul(w, v).transpose(1, 2).reshape(B, T, D)
        return self.deguchi(y), (k, v)
