# block 7, FINAL (2).  causal, muP.
# NB attention logits are q.k / d_head, not / sqrt(d_head): that is what muP asks for
# (Yang et al., Tensor Programs V) so that the lr carries over from the small proxy.
import torch, torch.nn as nn
import torch.nn.functional as F


class Zmix(nn.Module):
    """a: [b, t, w] -> [b, t, w]"""

    def __init__(s, w=64, n=4, attn_mult=1.0, p=0.0):
        super().__init__()
        s.n, s.dh = n, w // n
        s.mult = attn_mult / s.dh
        s.ug = nn.Linear(w, w, bias=False)      # queries; reset() zeroes them (muP appendix D)
        s.og = nn.Linear(w, w, bias=False)      # keys
        s.ag = nn.Linear(w, w, bias=False)      # values
        s.eg = nn.Linear(w, w, bias=False)
        s.p = p

    def reset(s):
        nn.init.zeros_(s.ug.weight)
        return s

    def forward(s, a):
        b, t, w = a.shape
        u = s.ug(a).view(b, t, s.n, s.dh)
        o = s.og(a).view(b, t, s.n, s.dh)
        g = s.ag(a).view(b, t, s.n, s.dh)
        z = torch.einsum('bind,bjnd->bnij', u, o) * s.mult
        i = torch.arange(t, device=a.device)
        z = z.masked_fill(i[None, :] > i[:, None], float('-inf'))
        z = F.dropout(z.softmax(-1), s.p, s.training)
        return s.eg(torch.einsum('bnij,bjnd->bind', z, g).reshape(b, t, w))


class Blk7(nn.Module):
    def __init__(s, w=64, n=4):
        super().__init__()
        s.x1, s.x2 = nn.LayerNorm(w), nn.LayerNorm(w)
        s.z = Zmix(w, n)
        s.up, s.dn = nn.Linear(w, 4 * w), nn.Linear(4 * w, w)

    def forward(s, a):
        a = a + s.z(s.x1(a))
        return a + s.dn(F.gelu(s.up(s.x2(a))))


if __name__ == '__main__':
    q = torch.randn(2, 6, 64)
    print(Blk7()(q).shape)
