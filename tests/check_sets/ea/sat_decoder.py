"""
Image captioning, "Show, Attend and Tell" soft attention (Flickr8k).

encoder_out : [batch, 14, 14, 2048] (or any H, W, C), from ResNet without the last two layers
captions    : [batch, max_len] word ids, starts with <start>
lengths     : [batch] number of decoding steps of every caption (len - 1), any order

Every pixel may be looked at, so there is no mask over the picture.  The scores are the
ReLU-MLP ones of the well-known tutorial:  full_att(relu(enc_att(a_i) + dec_att(h))).
The context is multiplied with the gate sigmoid(f_beta(h)) as in section 4.2.1.

returns predictions [batch, T, vocab] and alphas [batch, T, H*W]; T = max(lengths);
entries after a caption's end are zeros.
"""
import torch
import torch.nn as nn


class Attention(nn.Module):
    def __init__(self, encoder_dim, decoder_dim, attention_dim):
        super(Attention, self).__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.relu = nn.ReLU()
        self.softmax = nn.Softmax(dim=1)

    def forward(self, encoder_out, decoder_hidden):
        att1 = self.encoder_att(encoder_out)  # (b, pix, att)
        att2 = self.decoder_att(decoder_hidden)  # (b, att)
        att = self.full_att(self.relu(att1 + att2.unsqueeze(1))).squeeze(2)  # (b, pix)
        alpha = self.softmax(att)
        awe = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
        return awe, alpha


class CaptionDecoder(nn.Module):
    def __init__(self, attention_dim, embed_dim, decoder_dim, vocab_size, encoder_dim=2048):
        super().__init__()
        self.attention = Attention(encoder_dim, decoder_dim, attention_dim)
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.decode_step = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.init_c = nn.Linear(encoder_dim, decoder_dim)
        self.f_beta = nn.Linear(decoder_dim, encoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab_size)

    def forward(self, encoder_out, captions, lengths):
        B, C = encoder_out.size(0), encoder_out.size(-1)
        feats = encoder_out.reshape(B, -1, C)
        words = self.embedding(captions)
        mean = feats.mean(dim=1)
        h, c = self.init_h(mean), self.init_c(mean)

        T = int(lengths.max())
        preds = feats.new_zeros(B, T, self.fc.out_features)
        alphas = feats.new_zeros(B, T, feats.size(1))
        for t in range(T):
            alive = lengths > t
            awe, alpha = self.attention(feats, h)
            awe = torch.sigmoid(self.f_beta(h)) * awe
            h, c = self.decode_step(torch.cat([words[:, t], awe], dim=1), (h, c))
            preds[:, t] = torch.where(alive[:, None], self.fc(h), preds[:, t])
            alphas[:, t] = torch.where(alive[:, None], alpha, alphas[:, t])
        return preds, alphas
