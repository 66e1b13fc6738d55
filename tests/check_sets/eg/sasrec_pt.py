"""SASRec (self-attentive sequential recommendation) in PyTorch.

log_seqs: LongTensor (B, T) of item ids, oldest first, 0 = padding at the END of the history.
Outputs at position t depend on items 0..t only, so the padding behind never enters.
"""
import torch
import torch.nn as nn


class PointWiseFeedForward(nn.Module):
    def __init__(self, hidden, p):
        super().__init__()
        self.conv1 = nn.Conv1d(hidden, hidden, 1)
        self.conv2 = nn.Conv1d(hidden, hidden, 1)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        y = self.conv2(torch.relu(self.drop(self.conv1(x.transpose(1, 2)))))
        return self.drop(y).transpose(1, 2) + x


class SASRec(nn.Module):
    """predict(log_seqs, items): scores (B, n) of candidate items (B, n) after the last real item."""

    def __init__(self, item_num, maxlen=20, hidden=32, blocks=2, heads=2, p=0.2):
        super().__init__()
        self.item_emb = nn.Embedding(item_num + 1, hidden, padding_idx=0)
        self.pos_emb = nn.Embedding(maxlen, hidden)
        self.emb_dropout = nn.Dropout(p)
        self.ln_att = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(blocks))
        self.att = nn.ModuleList(nn.MultiheadAttention(hidden, heads, p) for _ in range(blocks))
        self.ln_ff = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(blocks))
        self.ff = nn.ModuleList(PointWiseFeedForward(hidden, p) for _ in range(blocks))
        self.last = nn.LayerNorm(hidden)

    def log2feats(self, log_seqs):
        T = log_seqs.shape[1]
        x = self.item_emb(log_seqs) * self.item_emb.embedding_dim ** 0.5
        x = self.emb_dropout(x + self.pos_emb(torch.arange(T, device=log_seqs.device)))
        keep = (log_seqs != 0).unsqueeze(-1)
        x = x * keep
        attention_mask = ~torch.tril(torch.ones(T, T, dtype=torch.bool, device=log_seqs.device))
        for ln1, att, ln2, ff in zip(self.ln_att, self.att, self.ln_ff, self.ff):
            x = x.transpose(0, 1)                 # time first for nn.MultiheadAttention
            q = ln1(x)
            out, _ = att(q, x, x, attn_mask=attention_mask)
            x = (q + out).transpose(0, 1)
            x = ff(ln2(x)) * keep
        return self.last(x)

    def predict(self, log_seqs, items):
        feats = self.log2feats(log_seqs)
        end = (log_seqs != 0).sum(1) - 1
        final = feats[torch.arange(len(feats)), end]
        return torch.einsum("bd,bnd->bn", final, self.item_emb(items))
