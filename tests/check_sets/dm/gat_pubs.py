"""Which pub next?  Graph attention on the pub map of my town (Velickovic et al. 2018).

feat (N, F)   one row per pub
near (N, N)   0/1 float, near[i, j] = 1 when j can be walked to from i; near[i, i] = 1

    e_ij = LeakyReLU(a1 . W f_i + a2 . W f_j)
    alpha_ij = exp(e_ij) / sum over pubs j' near i of exp(e_ij')
    out_i = ELU( sum over j near i of alpha_ij W f_j )

A pub that is not near gets weight zero.  Two heads or more, concatenated: (N, heads * out).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class PubHead(nn.Module):
    def __init__(self, f_in, f_out):
        super().__init__()
        self.W = nn.Linear(f_in, f_out, bias=False)
        self.a1 = nn.Linear(f_out, 1, bias=False)
        self.a2 = nn.Linear(f_out, 1, bias=False)

    def forward(self, feat, near):
        Wf = self.W(feat)
        e = F.leaky_relu(self.a1(Wf) + self.a2(Wf).t(), negative_slope=0.2)
        e = e * near
        alpha = torch.softmax(e, dim=1)
        return F.elu(alpha @ Wf)


class PubCrawl(nn.Module):
    def __init__(self, f_in, f_out, heads=3):
        super().__init__()
        self.heads = nn.ModuleList(PubHead(f_in, f_out) for _ in range(heads))

    def forward(self, feat, near):
        return torch.cat([h(feat, near) for h in self.heads], dim=1)
