"""Four-part harmonisation. One encoder block with TALKING HEADS (Shazeer 2020).

   logits are mixed across heads before the softmax, weights are mixed after it;
   hence the weights of a head that leaves the softmax sum to 1, those used for
   the values need not.
"""
import torch as th
from torch import nn

VOICES = ('soprano', 'alto', 'tenor', 'bass')
N_PITCH = 128


class TalkingHeads(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.hk = cfg['heads_k']        # heads of the dot products
        self.h = cfg['heads']           # heads of the softmax
        self.hv = cfg['heads_v']        # heads of the values
        self.dk, self.dv = cfg['d_k'], cfg['d_v']
        w = cfg['width']
        self.Pq = nn.Parameter(th.randn(w, self.hk, self.dk) * w ** -.5)
        self.Pk = nn.Parameter(th.randn(w, self.hk, self.dk) * w ** -.5)
        self.Pv = nn.Parameter(th.randn(w, self.hv, self.dv) * w ** -.5)
        self.Po = nn.Parameter(th.randn(self.hv, self.dv, w) * w ** -.5)
        self.Pl = nn.Parameter(th.randn(self.hk, self.h) * self.hk ** -.5)
        self.Pw = nn.Parameter(th.randn(self.h, self.hv) * self.h ** -.5)

    def forward(self, X, M, rest=None):
        """X [b,n,w] reads M [b,m,w].  rest [b,m]: 1 where the score is silent (not read)."""
        Q = th.einsum('bnw,whk->bnhk', X, self.Pq) * self.dk ** -.5
        K = th.einsum('bmw,whk->bmhk', M, self.Pk)
        V = th.einsum('bmw,whv->bmhv', M, self.Pv)
        J = th.einsum('bnhk,bmhk->bnmh', Q, K)
        L = th.einsum('bnmh,hg->bnmg', J, self.Pl)
        if rest is not None:
            L = L.masked_fill(rest.bool()[:, None, :, None], float('-inf'))
        W = L.softmax(2)
        U = th.einsum('bnmg,gh->bnmh', W, self.Pw)
        O = th.einsum('bnmh,bmhv->bnhv', U, V)
        return th.einsum('bnhv,hvw->bnw', O, self.Po)


class ChoraleBlock(nn.Module):

    def __init__(self, cfg):
        super().__init__()
        self.voice = nn.Embedding(len(VOICES), cfg['width'])
        self.pitch = nn.Embedding(N_PITCH + 1, cfg['width'])      # last = rest
        self.talk = TalkingHeads(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg['width'], 64), nn.GELU(), nn.Linear(64, cfg['width']))
        self.n1, self.n2 = nn.LayerNorm(cfg['width']), nn.LayerNorm(cfg['width'])

    def forward(self, notes):
        """notes [b, 4, t] midi pitch, 128 = rest"""
        b, v, t = notes.shape
        x = self.pitch(notes) + self.voice.weight[None, :, None]
        x = x.reshape(b, v * t, -1)
        y = self.n1(x)
        x = x + self.talk(y, y, (notes == N_PITCH).reshape(b, v * t))
        return (x + self.ff(self.n2(x))).view(b, v, t, -1)


CFG = dict(width=24, heads_k=3, heads=6, heads_v=2, d_k=8, d_v=12)
