"""Show, Attend and Tell in PyTorch.  My first captioning model, be kind."""
import torch
from torch import nn


class SoftAttention(nn.Module):
    """phi(a_i, h) = v . tanh(W_a a_i + W_h h); alpha = softmax over image regions."""

    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super().__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.f_beta = nn.Linear(decoder_dim, 1)

    def forward(self, encoder_out, decoder_hidden):
        """
        encoder_out:    (batch, num_pixels, encoder_dim)
        decoder_hidden: (batch, decoder_dim)
        returns the gated context (batch, encoder_dim) and alpha (batch, num_pixels)
        """
        att1 = self.encoder_att(encoder_out)
        att2 = self.decoder_att(decoder_hidden).unsqueeze(1)
        e = self.full_att(torch.tanh(att1 + att2)).squeeze(2)
        alpha = torch.softmax(e, dim=1)
        z = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
        gate = torch.sigmoid(self.f_beta(decoder_hidden))
        return gate * z, alpha


class DecoderWithAttention(nn.Module):
    def __init__(self, attention_dim, embed_dim, decoder_dim, vocab_size, encoder_dim=2048, dropout=0.5):
        super().__init__()
        self.attention = SoftAttention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.dropout = nn.Dropout(dropout)
        self.cell = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab_size)
        self.vocab_size = vocab_size

    def init_hidden_state(self, encoder_out):
        mean = encoder_out.mean(dim=1)
        return self.init_h(mean), self.init_c(mean)

    def forward(self, encoder_out, captions, lengths):
        # captions are sorted by decreasing length; at step t only the first few still live
        B = encoder_out.size(0)
        encoder_out = encoder_out.reshape(B, -1, encoder_out.size(-1))
        emb = self.embedding(captions)
        h, c = self.init_hidden_state(encoder_out)
        T = max(lengths)
        preds = emb.new_zeros(B, T, self.vocab_size)
        alphas = emb.new_zeros(B, T, encoder_out.size(1))
        for t in range(T):
            bt = sum(l > t for l in lengths)
            ctx, alpha = self.attention(encoder_out[:bt], h[:bt])
            h, c = self.cell(torch.cat([emb[:bt, t], ctx], 1), (h[:bt], c[:bt]))
            preds[:bt, t] = self.fc(self.dropout(h))
            alphas[:bt, t] = alpha
        return preds, alphas


def doubly_stochastic(alphas, lam=1.0):
    return lam * ((1.0 - alphas.sum(dim=1)) ** 2).mean()


if __name__ == "__main__":
    dec = DecoderWithAttention(8, 6, 10, 30, encoder_dim=12)
    p, a = dec(torch.randn(3, 4, 4, 12), torch.randint(0, 30, (3, 7)), [7, 5, 2])
    print(p.shape, a.sum(-1), doubly_stochastic(a))
