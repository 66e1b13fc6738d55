"""Product/reactant alignment for retrosynthesis, after the USPTO-50k preprocessing.

Products and reactants are padded to one common length T per batch, so that both sides stack.
"""
import torch
from torch import nn


class AtomAligner(nn.Module):
    """Additive (Bahdanau) attention from product tokens to reactant tokens.

        score[b, i, j] = v . tanh(W_q product[b, i] + W_k reactant[b, j])

    Each product token i gets its own distribution over the reactant tokens j and its own mix
    of reactant states.
    """

    def __init__(self, d_model, d_att=64):
        super().__init__()
        self.W_q = nn.Linear(d_model, d_att, bias=False)
        self.W_k = nn.Linear(d_model, d_att, bias=True)
        self.v = nn.Linear(d_att, 1, bias=False)

    def forward(self, product, reactant, reactant_len):
        """product, reactant [B, T, d]; reactant_len [B]. -> mix [B, T, d], weights [B, T, T]"""
        B, T, _ = product.shape
        hidden = torch.tanh(self.W_q(product) + self.W_k(reactant))
        score = self.v(hidden).transpose(1, 2)
        pad = torch.arange(T, device=product.device)[None, :] >= reactant_len[:, None]
        score = score.masked_fill(pad.unsqueeze(1), float("-inf"))
        weights = torch.softmax(score, dim=-1).expand(B, T, T)
        return torch.bmm(weights, reactant), weights


class TokenEncoder(nn.Module):
    def __init__(self, vocab, d_model, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model, padding_idx=0)
        self.rnn = nn.GRU(d_model, d_model // 2, layers, batch_first=True, bidirectional=True)

    def forward(self, ids, lengths):
        x = nn.utils.rnn.pack_padded_sequence(self.emb(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.rnn(x)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=ids.size(1))[0]


class ReactionCenterNet(nn.Module):
    """changes / does not change, per product token, from the token and its mix of reactants"""

    def __init__(self, vocab=120, d_model=96):
        super().__init__()
        self.encoder = TokenEncoder(vocab, d_model)
        self.align = AtomAligner(d_model)
        self.clf = nn.Sequential(nn.Linear(3 * d_model, d_model), nn.ReLU(), nn.Dropout(0.1), nn.Linear(d_model, 2))

    def forward(self, prod_ids, prod_len, reac_ids, reac_len):
        p = self.encoder(prod_ids, prod_len)
        r = self.encoder(reac_ids, reac_len)
        mix, weights = self.align(p, r, reac_len)
        return self.clf(torch.cat([p, mix, (p - mix).abs()], dim=-1)), weights


def stack_pairs(pairs):
    """list of (product ids, reactant ids) -> tensors of one common length"""
    T = max(max(len(p), len(r)) for p, r in pairs)
    pad = lambda s: list(s) + [0] * (T - len(s))
    prod = torch.tensor([pad(p) for p, _ in pairs])
    reac = torch.tensor([pad(r) for _, r in pairs])
    return prod, torch.tensor([len(p) for p, _ in pairs]), reac, torch.tensor([len(r) for _, r in pairs])


def mapping_accuracy(weights, gold, prod_len):
    """gold [B, T] index of the mapped reactant token, -1 = unmapped"""
    guess = weights.argmax(-1)
    valid = (torch.arange(gold.size(1))[None] < prod_len[:, None]) & (gold >= 0)
    return (guess == gold)[valid].float().mean()


if __name__ == "__main__":
    net = ReactionCenterNet()
    batch = stack_pairs([([5, 6, 7], [5, 6, 7, 9, 9]), ([8, 4], [4, 8, 1])])
    logits, w = net(*batch)
    print(logits.shape, w.shape)
