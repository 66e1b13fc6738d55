# NRMS (Wu et al. 2019), news recommendation, MIND-small
# user encoder only: the titles are encoded offline, see encode_titles.py
import torch
import torch.nn as nn
import torch.nn.functional as F

hparams = {
    'title_dim': 300,
    'd_model': 240,
    'n_head': 15,
    'attn_hidden': 128,
    'history_size': 50,
    'dropout': 0.2,
}


class AttentionPooling(nn.Module):
    """a_i = softmax_i( q^T tanh(W h_i + b) ), output sum_i a_i h_i"""

    def __init__(self, d_h, hidden):
        super().__init__()
        self.att_fc1 = nn.Linear(d_h, hidden)
        self.att_fc2 = nn.Linear(hidden, 1)

    def forward(self, x):
        e = torch.tanh(self.att_fc1(x))
        alpha = F.softmax(self.att_fc2(e), dim=1)
        return torch.bmm(x.transpose(1, 2), alpha).squeeze(-1)


class UserEncoder(nn.Module):
    """Vector of a user from the news that he or she clicked.

    news_vecs: [batch, clicked, title_dim] -> [batch, d_model]
    The clicked news of one user interact with each other by multi-head self-attention.
    """

    def __init__(self, hp=hparams):
        super().__init__()
        self.proj = nn.Linear(hp['title_dim'], hp['d_model'])
        self.mha = nn.MultiheadAttention(hp['d_model'], hp['n_head'], dropout=hp['dropout'])
        self.norm = nn.LayerNorm(hp['d_model'])
        self.dropout = nn.Dropout(hp['dropout'])
        self.pool = AttentionPooling(hp['d_model'], hp['attn_hidden'])

    def forward(self, news_vecs):
        x = self.dropout(self.proj(news_vecs))
        y, _ = self.mha(x, x, x, need_weights=False)
        x = self.norm(x + y)
        return self.pool(x)


class NRMS(nn.Module):
    def __init__(self, hp=hparams):
        super().__init__()
        self.user_encoder = UserEncoder(hp)
        self.cand_proj = nn.Linear(hp['title_dim'], hp['d_model'])
        self.criterion = nn.CrossEntropyLoss()

    def forward(self, clicks, cands, labels=None):
        """clicks [b, history, title_dim], cands [b, 1+neg, title_dim], labels [b]"""
        user = self.user_encoder(clicks)
        logits = torch.bmm(self.cand_proj(cands), user.unsqueeze(-1)).squeeze(-1)
        if labels is not None:
            return self.criterion(logits, labels), logits
        return torch.sigmoid(logits)


if __name__ == '__main__':
    m = NRMS()
    loss, logits = m(torch.randn(4, 50, 300), torch.randn(4, 5, 300), torch.zeros(4, dtype=torch.long))
    loss.backward()
    print(loss.item(), logits.shape)
