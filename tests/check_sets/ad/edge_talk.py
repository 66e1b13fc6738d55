import torch
from torch import nn, Tensor


def segment_softmax(logits: Tensor, owner: Tensor, n: int) -> Tensor:
    """softmax of logits (E, H) among the edges having the same owner (E,)"""
    idx = owner.unsqueeze(-1).expand_as(logits)
    top = logits.new_full((n, logits.size(1)), float("-inf"))
    top = top.scatter_reduce(0, idx, logits, reduce="amax", include_self=True)
    num = (logits - top.gather(0, idx)).exp()
    den = logits.new_zeros(n, logits.size(1)).index_add(0, owner, num)
    return num / den.gather(0, idx)


class EdgeTalk(nn.Module):
    """GATv2-like layer on an edge list.

    edge_index[0] are the senders, edge_index[1] the receivers. A receiver mixes what
    its senders say. Nodes that nobody talks to keep only the bias and the skip path.
    """

    def __init__(self, d_in: int, d_out: int, heads: int = 4, slope: float = 0.2):
        super().__init__()
        self.heads, self.d = heads, d_out
        self.speak = nn.Linear(d_in, heads * d_out)
        self.listen = nn.Linear(d_in, heads * d_out)
        self.skip = nn.Linear(d_in, heads * d_out, bias=False)
        self.a = nn.Parameter(torch.empty(heads, d_out))
        self.bias = nn.Parameter(torch.zeros(heads * d_out))
        self.act = nn.LeakyReLU(slope)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        n = x.size(0)
        snd, rcv = edge_index
        said = self.speak(x).view(n, self.heads, self.d)
        heard = self.listen(x).view(n, self.heads, self.d)

        msg = said[snd]                                             # E H d
        logit = (self.act(msg + heard[rcv]) * self.a).sum(-1)       # E H
        alpha = segment_softmax(logit, rcv, n)

        out = x.new_zeros(n, self.heads, self.d)
        out = out.index_add(0, rcv, msg * alpha.unsqueeze(-1))
        return out.flatten(1) + self.skip(x) + self.bias
