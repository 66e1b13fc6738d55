import torch
import torch.nn as nn


class ZorbInteract(nn.Module):
    """AutoInt-style interacting layer for click prediction: multi-head self-attention over
    feature fields, each head on its own slice of the projection, with a ReLU residual.

    gloop: (B, F, in_dim), one embedding for each of the F fields -> (B, F, out_dim)
    """

    def __init__(self, in_dim, out_dim, zorbs=2):
        super().__init__()
        assert out_dim % zorbs == 0
        self.zorbs = zorbs
        self.snip = out_dim // zorbs
        self.wq = nn.Linear(in_dim, out_dim, bias=False)
        self.wk = nn.Linear(in_dim, out_dim, bias=False)
        self.wv = nn.Linear(in_dim, out_dim, bias=False)
        self.res = nn.Linear(in_dim, out_dim, bias=False)

    def forward(self, gloop):
        b, f, _ = gloop.shape
        quax = self.wq(gloop).view(b, self.zorbs, f, self.snip)
        kerf = self.wk(gloop).view(b, self.zorbs, f, self.snip)
        vlim = self.wv(gloop).view(b, self.zorbs, f, self.snip)
        heat = quax @ kerf.transpose(2, 3) / self.snip ** 0.5
        heat = torch.softmax(heat, dim=-1)
        mush = (heat @ vlim).transpose(1, 2).reshape(b, f, -1)
        return torch.relu(mush + self.res(gloop))
