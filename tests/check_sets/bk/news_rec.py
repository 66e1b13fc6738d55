'''
NRMS (Wu et al., EMNLP 2019): news recommendation with multi-head self-attention.

  news encoder : words -> self attention -> additive pooling
  user encoder : clicked news -> self attention -> additive pooling
'''
import torch
from torch import nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    '''
    Multi-head self attention, x (N, L, D) -> (N, L, D).

    p_attn : dropout on the attention weights, in training mode only
    keep   : (N, L) bool, True = real word
    '''

    def __init__(self, d_model, n_head, p_attn=0.2):
        super().__init__()
        self.n_head = n_head
        self.p_attn = p_attn
        self.qkv = nn.ModuleDict({c: nn.Linear(d_model, d_model) for c in 'qkv'})

    def forward(self, x, keep=None):
        N, L, D = x.shape
        q, k, v = (
            self.qkv[c](x).view(N, L, self.n_head, D // self.n_head).transpose(1, 2)
            for c in 'qkv'
        )
        mask = None if keep is None else keep[:, None, None, :]
        if not self.training:
            self.p_attn = 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.p_attn)
        return y.transpose(1, 2).reshape(N, L, D)


class AdditivePooling(nn.Module):
    def __init__(self, d, d_q):
        super().__init__()
        self.proj = nn.Linear(d, d_q)
        self.query = nn.Parameter(torch.empty(d_q).uniform_(-0.1, 0.1))

    def forward(self, x, keep=None):
        a = torch.tanh(self.proj(x)) @ self.query
        if keep is not None:
            a = a.masked_fill(~keep, -1e9)
        return torch.einsum('nl,nld->nd', a.softmax(-1), x)


class NewsEncoder(nn.Module):
    def __init__(self, vocab, d_word=32, n_head=4, p=0.2):
        super().__init__()
        self.word = nn.Embedding(vocab, d_word, padding_idx=0)
        self.att = SelfAttention(d_word, n_head, p)
        self.pool = AdditivePooling(d_word, 16)
        self.drop = nn.Dropout(p)

    def forward(self, title):
        keep = title != 0
        keep[:, 0] = True
        x = self.drop(self.word(title))
        return self.pool(self.drop(self.att(x, keep)), keep)


class NRMS(nn.Module):
    def __init__(self, vocab, d=32, n_head=4):
        super().__init__()
        self.news = NewsEncoder(vocab, d, n_head)
        self.user_att = SelfAttention(d, n_head)
        self.user_pool = AdditivePooling(d, 16)

    def forward(self, history, candidates):
        '''history (B, T, W), candidates (B, K, W) -> scores (B, K)'''
        B, T, W = history.shape
        h = self.news(history.reshape(-1, W)).view(B, T, -1)
        c = self.news(candidates.reshape(-1, W)).view(B, candidates.size(1), -1)
        u = self.user_pool(self.user_att(h))
        return torch.einsum('bkd,bd->bk', c, u)


def train(model, batches, valid, opt, epochs=3):
    for ep in range(epochs):
        model.train()
        for hist, cand, label in batches:
            opt.zero_grad()
            F.cross_entropy(model(hist, cand), label).backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            hit = [(model(h, c).argmax(1) == y).float().mean().item() for h, c, y in valid]
        print(ep, sum(hit) / max(len(hit), 1))
