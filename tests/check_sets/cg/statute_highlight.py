"""Statute search: scores a statute for a question and shows *why*.

``StatuteMatcher`` returns the relevance and an attention map [B, Lq, Ls]: for each
word of the question the share of attention each word of the statute received,
averaged over the heads (every row sums to one).  The web front end colours the
words with it.
"""
import torch
import torch.nn as nn


class CrossAttention(nn.Module):
    def __init__(self, d_model, n_head):
        super().__init__()
        assert d_model % n_head == 0
        self.n_head, self.d_head = n_head, d_model // n_head
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.kv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.o = nn.Linear(d_model, d_model)

    def forward(self, x, memory, memory_len):
        """Returns (output, attention [B, H, Lq, Ls])."""
        b, lq, d = x.shape
        ls = memory.shape[1]
        q = self.q(x).view(b, lq, self.n_head, self.d_head).transpose(1, 2)
        k, v = self.kv(memory).chunk(2, dim=-1)
        k = k.view(b, ls, self.n_head, self.d_head).transpose(1, 2)
        v = v.view(b, ls, self.n_head, self.d_head).transpose(1, 2)
        attn = torch.matmul(q, k.transpose(-1, -2)) * self.d_head ** -0.5
        beyond = torch.arange(ls, device=x.device)[None, :] >= memory_len[:, None]
        attn = attn.masked_fill(beyond[:, None, None, :], -1e9)
        out = torch.matmul(torch.softmax(attn, dim=-1), v)
        out = self.o(out.transpose(1, 2).reshape(b, lq, d))
        return out, attn


class StatuteMatcher(nn.Module):
    def __init__(self, vocab: int = 400, d_model: int = 48, n_head: int = 4):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.cross = CrossAttention(d_model, n_head)
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, 1)

    def forward(self, question, statute, statute_len):
        q = self.emb(question)
        y, attn = self.cross(q, self.emb(statute), statute_len)
        pooled = self.norm(q + y).mean(1)
        return self.out(pooled).squeeze(-1), attn.mean(1)


def highlight(model, question, statute, statute_len, words, top=3):
    """The words of one statute that the question looked at most."""
    with torch.no_grad():
        _, attn = model(question[None], statute[None], torch.tensor([statute_len]))
    share = attn[0].sum(0)[:statute_len]
    best = share.topk(min(top, statute_len)).indices.tolist()
    return [words[i] for i in best]
