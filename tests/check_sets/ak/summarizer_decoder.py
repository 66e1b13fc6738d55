# Decoder of the news summarizer: LSTM cell, attention with coverage, copy switch.
# (See, Liu & Manning 2017.)  Batch first everywhere.
import torch
import torch.nn as nn
import torch.nn.functional as F


class opts:
    hidden_dim = 32
    emb_dim = 24
    vocab_size = 200
    is_coverage = True
    eps = 1e-12


class Attention(nn.Module):
    def __init__(self, o=opts):
        super(Attention, self).__init__()
        n = o.hidden_dim * 2
        self.is_coverage = o.is_coverage
        self.eps = o.eps
        self.W_h = nn.Linear(n, n, bias=False)
        self.W_c = nn.Linear(1, n, bias=False)
        self.decode_proj = nn.Linear(n, n)
        self.v = nn.Linear(n, 1, bias=False)

    def forward(self, s_t_hat, encoder_outputs, enc_padding_mask, coverage):
        """
        s_t_hat           [B, 2H]     cell and hidden state of the decoder, concatenated
        encoder_outputs   [B, T, 2H]
        enc_padding_mask  [B, T]      1.0 = word, 0.0 = padding
        coverage          [B, T]      sum of all earlier attention
        """
        b, t_k, n = encoder_outputs.size()

        encoder_feature = self.W_h(encoder_outputs.reshape(-1, n))              # B*T x 2H
        dec_fea = self.decode_proj(s_t_hat)                                     # B x 2H
        dec_fea = dec_fea.unsqueeze(1).expand(b, t_k, n).reshape(-1, n)         # B*T x 2H
        att_features = encoder_feature + dec_fea
        if self.is_coverage:
            att_features = att_features + self.W_c(coverage.reshape(-1, 1))

        scores = self.v(torch.tanh(att_features)).view(-1, t_k)                 # B x T
        attn_dist_ = F.softmax(scores, dim=1) * enc_padding_mask
        normalization_factor = attn_dist_.sum(1, keepdim=True)
        attn_dist = attn_dist_ / (normalization_factor + self.eps)

        c_t = torch.bmm(attn_dist.unsqueeze(1), encoder_outputs).squeeze(1)     # B x 2H
        if self.is_coverage:
            coverage = coverage + attn_dist
        return c_t, attn_dist, coverage


class Decoder(nn.Module):
    def __init__(self, o=opts):
        super(Decoder, self).__init__()
        self.o = o
        self.attention_network = Attention(o)
        self.embedding = nn.Embedding(o.vocab_size, o.emb_dim)
        self.x_context = nn.Linear(o.hidden_dim * 2 + o.emb_dim, o.emb_dim)
        self.lstm = nn.LSTMCell(o.emb_dim, o.hidden_dim)
        self.p_gen_linear = nn.Linear(o.hidden_dim * 4 + o.emb_dim, 1)
        self.out1 = nn.Linear(o.hidden_dim * 3, o.hidden_dim)
        self.out2 = nn.Linear(o.hidden_dim, o.vocab_size)

    def step(self, y, state, context, enc_out, enc_mask, enc_ids_ext, n_oov, coverage):
        x = self.x_context(torch.cat((context, self.embedding(y)), 1))
        h, c = self.lstm(x, state)
        s_t = torch.cat((h, c), 1)
        context, attn, coverage = self.attention_network(s_t, enc_out, enc_mask, coverage)
        p_gen = torch.sigmoid(self.p_gen_linear(torch.cat((context, s_t, x), 1)))
        logits = self.out2(self.out1(torch.cat((h, context), 1)))
        p_vocab = p_gen * F.softmax(logits, dim=1)
        if n_oov:
            p_vocab = torch.cat([p_vocab, p_vocab.new_zeros(y.size(0), n_oov)], 1)
        final = p_vocab.scatter_add(1, enc_ids_ext, (1 - p_gen) * attn)
        return final, (h, c), context, attn, coverage

    def loss(self, target, enc_out, enc_mask, enc_ids_ext, n_oov=0, lam=1.0):
        b, t, _ = enc_out.shape
        z = enc_out.new_zeros
        state, ctx, cov = (z(b, self.o.hidden_dim), z(b, self.o.hidden_dim)), z(b, 2 * self.o.hidden_dim), z(b, t)
        total = 0.0
        for i in range(target.size(1) - 1):
            old = cov
            p, state, ctx, a, cov = self.step(target[:, i].clamp(max=self.o.vocab_size - 1), state, ctx,
                                              enc_out, enc_mask, enc_ids_ext, n_oov, cov)
            nll = -torch.log(p.gather(1, target[:, i + 1:i + 2]) + self.o.eps).mean()
            total = total + nll + lam * torch.minimum(a, old).sum(1).mean()
        return total / (target.size(1) - 1)
