"""Show-attend-and-tell style captioner (7x7 grid features, GRU decoder)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = 0, 1, 2


class AttnDecoder(nn.Module):
    """GRU decoder with soft attention over the image regions.

    At each step the decoder state is matched against every region of the
    image; the regions that fit the state best contribute most to the context
    vector that is fed into the GRU.

    step(word [B], hidden [B,H]) -> logits [B,V], hidden [B,H], alpha [B,R]
    begin(grid [B,C,7,7]) must be called first, once for each batch of images.
    """

    def __init__(self, vocab, feat=32, emb=24, hid=40, regions=49, p_drop=0.1):
        super().__init__()
        self.regions = regions
        self.embed = nn.Embedding(vocab, emb, padding_idx=PAD)
        self.feat_proj = nn.Linear(feat, hid)
        self.attn = nn.Linear(emb + hid, regions)
        self.mix = nn.Linear(emb + hid, emb)
        self.gru = nn.GRUCell(emb, hid)
        self.init_h = nn.Linear(feat, hid)
        self.drop = nn.Dropout(p_drop)
        self.out = nn.Linear(hid, vocab)
        self._mem = None

    def begin(self, grid):
        flat = grid.flatten(2).transpose(1, 2)
        assert flat.size(1) == self.regions
        self._mem = self.feat_proj(flat)
        return torch.tanh(self.init_h(flat.mean(1)))

    def step(self, word, hidden):
        e = self.drop(self.embed(word))
        alpha = F.softmax(self.attn(torch.cat((e, hidden), dim=1)), dim=1)
        ctx = torch.bmm(alpha.unsqueeze(1), self._mem).squeeze(1)
        x = F.relu(self.mix(torch.cat((e, ctx), dim=1)))
        hidden = self.gru(x, hidden)
        return self.out(hidden), hidden, alpha

    def forward(self, grid, words):
        """Teacher forcing; words [B,T] -> logits [B,T,V], alphas [B,T,R]."""
        h = self.begin(grid)
        logits, alphas = [], []
        for t in range(words.size(1)):
            y, h, a = self.step(words[:, t], h)
            logits.append(y)
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)


def doubly_stochastic(alphas, weight=1.0):
    """Regulariser of Xu et al.: every region should be looked at about once."""
    return weight * ((1.0 - alphas.sum(1)) ** 2).mean()


def caption_loss(model, grid, caps):
    logits, alphas = model(grid, caps[:, :-1])
    ce = F.cross_entropy(logits.flatten(0, 1), caps[:, 1:].flatten(), ignore_index=PAD)
    return ce + doubly_stochastic(alphas)


@torch.no_grad()
def greedy(model, grid, max_len=12):
    model.eval()
    h = model.begin(grid)
    word = torch.full((grid.size(0),), BOS, dtype=torch.long)
    caps, maps = [], []
    for _ in range(max_len):
        y, h, a = model.step(word, h)
        word = y.argmax(1)
        caps.append(word)
        maps.append(a.view(-1, 7, 7))
        if bool((word == EOS).all()):
            break
    return torch.stack(caps, 1), torch.stack(maps, 1)
