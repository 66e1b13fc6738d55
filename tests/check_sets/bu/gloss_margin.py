"""gloss_margin: interlinear glosses for field linguists.

Source = morphemes, target = gloss tags.  Luong attention with score "dot"; the
attentional vector is  h~ = tanh(W [c; h])  and the alignment that is handed back
(target x source, rows are probabilities) is what the editor draws as lines
between morpheme and gloss.
"""
import torch
from torch import nn


class Morphemes(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.e = nn.Embedding(n, d)
        self.rnn = nn.LSTM(d, d, batch_first=True)

    def forward(self, ids):
        return self.rnn(self.e(ids))


class GlossDecoder(nn.Module):
    def __init__(self, n_tags: int, d: int):
        super().__init__()
        self.e = nn.Embedding(n_tags, d)
        self.rnn = nn.LSTM(d, d, batch_first=True)
        self.combine = nn.Linear(2 * d, d, bias=False)
        self.tag = nn.Linear(d, n_tags)

    def forward(self, tags, memory, state, missing=None):
        """
        :param tags:    B x T previous tags
        :param memory:  B x S x d
        :param state:   (h, c) of the encoder, each 1 x B x d
        :param missing: B x S, True where there is no morpheme
        :return: logits B x T x n_tags, state, alignment B x T x S
        """
        h, state = self.rnn(self.e(tags), state)
        align = torch.bmm(h, memory.transpose(1, 2))
        if missing is not None:
            align = align.masked_fill(missing.unsqueeze(1), float("-inf"))
        context = torch.bmm(align.softmax(dim=-1), memory)
        h_tilde = self.combine(torch.cat([context, h], dim=-1))
        return self.tag(h_tilde), state, align


def draw(alignment, morphemes, glosses, threshold=0.3):
    """Pairs to be connected in the editor."""
    pairs = []
    for t, row in enumerate(alignment.tolist()):
        for s, w in enumerate(row):
            if w >= threshold:
                pairs.append((morphemes[s], glosses[t]))
    return pairs


def gloss(encoder, decoder, ids, bos=0, steps=4):
    memory, state = encoder(ids)
    tag = torch.full((ids.shape[0], 1), bos)
    tags, lines = [], []
    for _ in range(steps):
        logits, state, a = decoder(tag, memory, state)
        tag = logits.argmax(-1)
        tags.append(tag)
        lines.append(a)
    return torch.cat(tags, 1), torch.cat(lines, 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    ids = torch.randint(0, 30, (1, 4))
    tags, lines = gloss(Morphemes(30, 8), GlossDecoder(12, 8), ids)
    print(draw(lines[0], ids[0].tolist(), tags[0].tolist()))
