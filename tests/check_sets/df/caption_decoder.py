import torch
import torch.nn as nn
import torch.nn.functional as F


class StepDecoderLayer(nn.Module):
    """Transformer caption decoder used one word at a time.

    word   (B, 1, d)   current word embedding
    image  (B, R, d)   region features
    store  None or (k, v), the words so far, each (B, heads, t, d // heads)
    Returns the layer output (B, 1, d) and the longer store.
    """

    def __init__(self, d=32, heads=4):
        super().__init__()
        self.heads = heads
        self.self_qkv = nn.Linear(d, 3 * d)
        self.self_o = nn.Linear(d, d)
        self.cross_q, self.cross_kv, self.cross_o = nn.Linear(d, d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)

    def fold(self, t):
        return t.unflatten(2, (self.heads, -1)).transpose(1, 2)

    def look(self, q, k, v):
        w = F.softmax(q @ k.transpose(2, 3) / q.size(-1) ** 0.5, dim=-1)
        return (w @ v).transpose(1, 2).flatten(2)

    def forward(self, word, image, store=None):
        q, k, v = map(self.fold, self.self_qkv(word).chunk(3, dim=-1))
        if store is not None:
            k = torch.cat((k, store[0]), dim=2)
            v = torch.cat((store[1], v), dim=2)
        x = self.n1(word + self.self_o(self.look(q, k, v)))
        ck, cv = map(self.fold, self.cross_kv(image).chunk(2, dim=-1))
        x = self.n2(x + self.cross_o(self.look(self.fold(self.cross_q(x)), ck, cv)))
        return self.n3(x + self.ff(x)), (k, v)
