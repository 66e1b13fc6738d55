# Seq2seq translation, Multi30k de->en.
# Encoder: bi-GRU.  Decoder: GRU with additive attention, Bahdanau et al. 2015 (arXiv 1409.0473)
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, SOS, EOS = 0, 1, 2
MAX_LENGTH = 50


class EncoderRNN(nn.Module):
    def __init__(self, vocab, emb_dim, hid_dim, dropout=0.3):
        super().__init__()
        self.embedding = nn.Embedding(vocab, emb_dim, padding_idx=PAD)
        self.rnn = nn.GRU(emb_dim, hid_dim, bidirectional=True, batch_first=True)
        self.bridge = nn.Linear(2 * hid_dim, hid_dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, src):
        lengths = (src != PAD).sum(1)
        emb = self.dropout(self.embedding(src))
        packed = nn.utils.rnn.pack_padded_sequence(emb, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, h = self.rnn(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=src.size(1))
        hidden = torch.tanh(self.bridge(torch.cat([h[0], h[1]], dim=1)))
        return out, hidden


class AttnDecoderRNN(nn.Module):
    """One step of the decoder.

    The attention scores how well the inputs around source position j match the
    output at this step, e_j = a(s_{t-1}, h_j), from the previous decoder state
    and the encoder annotation h_j; alpha = softmax(e) over the source words and
    the context is sum_j alpha_j h_j.
    """

    def __init__(self, vocab, emb_dim, hid_dim, dropout=0.3, max_length=MAX_LENGTH):
        super().__init__()
        self.max_length = max_length
        self.embedding = nn.Embedding(vocab, emb_dim, padding_idx=PAD)
        self.attn_hidden = nn.Linear(emb_dim + hid_dim, hid_dim)
        self.attn_energy = nn.Linear(hid_dim, max_length)
        self.rnn = nn.GRU(emb_dim + 2 * hid_dim, hid_dim, batch_first=True)
        self.out = nn.Linear(hid_dim + 2 * hid_dim + emb_dim, vocab)
        self.dropout = nn.Dropout(dropout)

    def forward(self, token, hidden, encoder_outputs, src_mask):
        """token [B]; hidden [B, H]; encoder_outputs [B, S, 2H]; src_mask [B, S] True = word"""
        S = encoder_outputs.size(1)
        embedded = self.dropout(self.embedding(token))

        energy = self.attn_energy(torch.tanh(self.attn_hidden(torch.cat([embedded, hidden], dim=1))))
        energy = energy[:, :S].masked_fill(~src_mask, float("-inf"))
        alpha = F.softmax(energy, dim=1)
        context = torch.bmm(alpha.unsqueeze(1), encoder_outputs).squeeze(1)

        output, h = self.rnn(torch.cat([embedded, context], dim=1).unsqueeze(1), hidden.unsqueeze(0))
        logits = self.out(torch.cat([output.squeeze(1), context, embedded], dim=1))
        return logits, h.squeeze(0), alpha


class Seq2Seq(nn.Module):
    def __init__(self, src_vocab, trg_vocab, emb_dim=256, hid_dim=512):
        super().__init__()
        self.encoder = EncoderRNN(src_vocab, emb_dim, hid_dim)
        self.decoder = AttnDecoderRNN(trg_vocab, emb_dim, hid_dim)

    def forward(self, src, trg, teacher_forcing=0.5):
        memory, hidden = self.encoder(src)
        mask = src != PAD
        token, steps = trg[:, 0], []
        for t in range(1, trg.size(1)):
            logits, hidden, _ = self.decoder(token, hidden, memory, mask)
            steps.append(logits)
            token = trg[:, t] if random.random() < teacher_forcing else logits.argmax(-1)
        return torch.stack(steps, dim=1)

    @torch.no_grad()
    def translate(self, src, max_len=MAX_LENGTH):
        self.eval()
        memory, hidden = self.encoder(src)
        mask = src != PAD
        token = torch.full((src.size(0),), SOS, dtype=torch.long, device=src.device)
        words, maps = [], []
        for _ in range(max_len):
            logits, hidden, alpha = self.decoder(token, hidden, memory, mask)
            token = logits.argmax(-1)
            words.append(token)
            maps.append(alpha)
            if (token == EOS).all():
                break
        return torch.stack(words, 1), torch.stack(maps, 1)


def train_epoch(model, batches, optimizer, clip=1.0):
    model.train()
    total = 0.0
    for src, trg in batches:
        optimizer.zero_grad()
        logits = model(src, trg)
        loss = F.cross_entropy(logits.flatten(0, 1), trg[:, 1:].flatten(), ignore_index=PAD)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total += loss.item()
    return total
