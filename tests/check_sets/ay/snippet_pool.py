"""Two-tower code search: docstring tower and code tower, cosine in a shared space.

Each tower is embeddings + BiLSTM + structured self-attention (Lin et al. 2017), which
condenses a token sequence into `hops` vectors.
"""
import ast
import keyword

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def identifiers(source):
    """Names in a python snippet, in order, without keywords."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    names = []
    for node in ast.walk(tree):
        for attr in ("id", "attr", "name", "arg"):
            n = getattr(node, attr, None)
            if isinstance(n, str) and not keyword.iskeyword(n):
                names.append((getattr(node, "lineno", 0), getattr(node, "col_offset", 0), n))
    return [n for _, _, n in sorted(names)]


class StructuredPooling(nn.Module):
    """A = softmax(W2 tanh(W1 H^T)), M = A H.

    H is [B, T, D]; A has one row per hop, [B, hops, T], and every row sums to one over
    the tokens of the snippet (positions t >= length get none). M is [B, hops, D].
    `overlap` is the penalty ||A A^T - I||_F^2 of the paper, averaged over the batch.
    """

    def __init__(self, dim, hidden=64, hops=4):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, hops, bias=False)

    def forward(self, H, lengths):
        logits = self.w2(self.w1(H).tanh())                              # [B, T, hops]
        t = torch.arange(H.shape[1], device=H.device).view(1, -1, 1)
        logits = logits.masked_fill(t >= lengths.view(-1, 1, 1), torch.finfo(logits.dtype).min)
        A = logits.softmax(dim=1).transpose(1, 2)
        return A @ H, A

    @staticmethod
    def overlap(A):
        eye = torch.eye(A.shape[1], device=A.device)
        return ((A @ A.transpose(1, 2) - eye) ** 2).sum(dim=(1, 2)).mean()


class Tower(nn.Module):
    def __init__(self, vocab, emb=100, hidden=128, out=256, hops=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, hidden, bidirectional=True, batch_first=True)
        self.pool = StructuredPooling(2 * hidden, hops=hops)
        self.out = nn.Linear(2 * hidden * hops, out)

    def forward(self, ids):
        lengths = (ids != 0).sum(1).clamp(min=1)
        packed = pack_padded_sequence(self.embed(ids), lengths.cpu(), batch_first=True, enforce_sorted=False)
        H, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        M, A = self.pool(H, lengths)
        return F.normalize(self.out(M.flatten(1)), dim=-1), A


class SnippetSearch(nn.Module):
    def __init__(self, vocab_doc, vocab_code, tau=0.07, penalty=0.01):
        super().__init__()
        self.doc = Tower(vocab_doc)
        self.code = Tower(vocab_code)
        self.log_tau = nn.Parameter(torch.tensor(tau).log())
        self.penalty = penalty

    def forward(self, doc_ids, code_ids):
        """In-batch contrastive loss, the i-th docstring belongs to the i-th snippet."""
        d, Ad = self.doc(doc_ids)
        c, Ac = self.code(code_ids)
        sim = d @ c.t() / self.log_tau.exp()
        target = torch.arange(len(d), device=d.device)
        loss = (F.cross_entropy(sim, target) + F.cross_entropy(sim.t(), target)) / 2
        return loss + self.penalty * (StructuredPooling.overlap(Ad) + StructuredPooling.overlap(Ac))


class Index:
    def __init__(self, model):
        self.model, self.vecs, self.meta = model.eval(), [], []

    @torch.no_grad()
    def add(self, code_ids, meta):
        self.vecs.append(self.model.code(code_ids)[0])
        self.meta.extend(meta)

    @torch.no_grad()
    def query(self, doc_ids, top=10):
        q = self.model.doc(doc_ids)[0]
        score, idx = (q @ torch.cat(self.vecs).t()).topk(min(top, len(self.meta)), dim=1)
        return [[(self.meta[j], float(s)) for j, s in zip(r, ss)] for r, ss in zip(idx.tolist(), score)]


def mrr(sim):
    """sim [N, N], the diagonal is the right answer."""
    rank = (sim > sim.diagonal().unsqueeze(1)).sum(1) + 1
    return (1.0 / rank).mean().item()
