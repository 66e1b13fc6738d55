"""Attention of recurrent networks as people call it: state and states by any name, lengths, masks, Luong's vector."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


class StateAndStates(nn.Module):
    """s (B, dec_dim) is the decoder's state, h (B, T, enc_dim) the encoder's."""

    def __init__(self, enc_dim, dec_dim, attn_dim):
        super().__init__()
        self.W = nn.Linear(dec_dim, attn_dim, bias=False)
        self.U = nn.Linear(enc_dim, attn_dim, bias=False)
        self.v = nn.Linear(attn_dim, 1, bias=False)

    def forward(self, s, h):
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + self.U(h))).squeeze(-1)
        a = F.softmax(e, dim=1)
        return torch.bmm(a.unsqueeze(1), h).squeeze(1), a


class StateAndStatesWrong(StateAndStates):
    """Bahdanau attention over the annotations h."""

    def forward(self, s, h):
        e = self.v(self.W(s).unsqueeze(1) + self.U(h)).squeeze(-1)
        return torch.bmm(F.softmax(e, dim=1).unsqueeze(1), h).squeeze(1)


class TwoWayEncoder(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.attn_hidden = nn.Linear(hidden_size, hidden_size)
        self.attn_enc = nn.Linear(2 * hidden_size, hidden_size)
        self.score = nn.Linear(hidden_size, 1)

    def forward(self, dec_hidden, enc_outputs, mask=None):
        # dec_hidden (B, H), enc_outputs (B, S, 2H), mask (B, S), 1 = real
        e = torch.tanh(self.attn_hidden(dec_hidden).unsqueeze(1) + self.attn_enc(enc_outputs))
        e = self.score(e).squeeze(2)
        if mask is not None:
            e = e.masked_fill(mask == 0, -1e10)
        a = torch.softmax(e, dim=-1)
        return (a.unsqueeze(-1) * enc_outputs).sum(1), a


class TwoWayEncoderWrong(TwoWayEncoder):
    def forward(self, dec_hidden, enc_outputs, mask=None):
        # mask (B, S), 1 = real
        e = torch.tanh(self.attn_hidden(dec_hidden).unsqueeze(1) + self.attn_enc(enc_outputs))
        e = self.score(e).squeeze(2)
        if mask is not None:
            e = e.masked_fill(mask == 1, -1e10)
        return (torch.softmax(e, dim=-1).unsqueeze(-1) * enc_outputs).sum(1)


class SequenceFirst(nn.Module):
    def __init__(self, enc_hid_dim, dec_hid_dim):
        super().__init__()
        self.attn = nn.Linear(2 * enc_hid_dim + dec_hid_dim, dec_hid_dim)
        self.v = nn.Linear(dec_hid_dim, 1, bias=False)

    def forward(self, hidden, encoder_outputs):
        # hidden (B, H), encoder_outputs (S, B, 2E)
        S = len(encoder_outputs)
        states = encoder_outputs.permute(1, 0, 2)
        both = torch.cat((hidden.unsqueeze(1).repeat(1, S, 1), states), dim=2)
        return F.softmax(self.v(torch.tanh(self.attn(both))).squeeze(2), dim=1)


class OverTheBatch(nn.Module):
    def __init__(self, dec_dim, enc_dim, attn_dim):
        super().__init__()
        self.Wa, self.Ua = nn.Linear(dec_dim, attn_dim), nn.Linear(enc_dim, attn_dim)
        self.va = nn.Parameter(torch.rand(attn_dim))

    def forward(self, state, annotations):
        e = torch.tanh(self.Wa(state)[:, None] + self.Ua(annotations)) @ self.va
        return (F.softmax(e, dim=0)[..., None] * annotations).sum(1)


class LooseBias(nn.Module):
    """Bahdanau: query (B, n_q, d), keys (B, n_k, d)."""

    def __init__(self, dim):
        super().__init__()
        self.query_proj, self.key_proj = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.rand(dim))
        self.score_proj = nn.Linear(dim, 1)

    def forward(self, query, keys):
        both = self.query_proj(query)[:, :, None] + self.key_proj(keys)[:, None]
        return self.score_proj(torch.tanh(both + self.bias)).squeeze(-1).softmax(-1) @ keys


class TokenAndState(nn.Module):
    """Weights for each position of a sentence, made of the token and the state."""

    def __init__(self, hidden_size, max_length=20):
        super().__init__()
        self.attn = nn.Linear(2 * hidden_size, max_length)
        self.mix = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, token, hidden, encoder_outputs):
        w = F.softmax(self.attn(torch.cat((token, hidden), 1))[:, : encoder_outputs.size(1)], dim=1)
        c = torch.bmm(w.unsqueeze(1), encoder_outputs).squeeze(1)
        return F.relu(self.mix(torch.cat((token, c), 1))), w


class LuongWithLengths(nn.Module):
    """Luong's global attention."""

    def __init__(self, hidden):
        super().__init__()
        self.Wc = nn.Linear(2 * hidden, hidden, bias=False)

    def forward(self, dec, enc, enc_len):
        """dec (B, T, H), enc (B, S, H), enc_len (B,)"""
        keep = torch.arange(enc.shape[1])[None] < enc_len[:, None]
        a = (dec @ enc.transpose(1, 2)).masked_fill(~keep[:, None], float("-inf")).softmax(-1)
        return torch.tanh(self.Wc(torch.cat([a @ enc, dec], -1))), a


class LuongMaskedLate(nn.Module):
    """Luong's general score; mask (B, S), True = token."""

    def __init__(self, hidden):
        super().__init__()
        self.Wa, self.Wc = nn.Linear(hidden, hidden, bias=False), nn.Linear(2 * hidden, hidden)

    def forward(self, dec_state, enc_states, mask=None):
        a = torch.softmax(torch.einsum("bth,bsh->bts", self.Wa(dec_state), enc_states), -1)
        if mask is not None:
            a = a * mask[:, None]
        return torch.tanh(self.Wc(torch.cat((a @ enc_states, dec_state), -1)))


class LuongArrays:
    """Luong's dot attention for one step of the decoder."""

    def __init__(self, hidden, seed=0):
        self.Wc = np.random.default_rng(seed).normal(size=(2 * hidden, hidden))

    def __call__(self, h_t, h_s):
        # h_t (B, H), h_s (B, S, H)
        a = softmax(np.einsum("bh,bsh->bs", h_t, h_s))
        return np.concatenate([np.einsum("bs,bsh->bh", a, h_s), h_t], -1) @ self.Wc, a


def luong_general(dec_h, enc_hs, W_a, W_c):
    """Luong: dec_h (B, H), enc_hs (B, S, H)."""
    a = softmax(np.einsum("bh,hk,bsk->bs", dec_h, W_a, enc_hs))
    return np.tanh(np.concatenate([(a[:, :, None] * enc_hs).sum(1), dec_h], axis=-1) @ W_c)


def bahdanau_lengths(s, h, lens, W, U, v):
    e = np.tanh((s @ W)[:, None] + h @ U) @ v
    e = np.where(np.arange(h.shape[1])[None] < lens[:, None], e, -np.inf)
    return np.einsum("bt,btd->bd", softmax(e), h)


EXPECTED = {
    "StateAndStates": "",
    "StateAndStatesWrong": "additive_no_tanh",
    "TwoWayEncoder": "",
    "TwoWayEncoderWrong": "mask_inverted",
    "SequenceFirst": "",
    "OverTheBatch": "softmax_axis_head_or_batch",
    "LooseBias": "",
    "TokenAndState": "additive_ignores_keys",
    "LuongWithLengths": "",
    "LuongMaskedLate": "mask_after_softmax",
    "LuongArrays": "luong_no_tanh_out",
    "luong_general": "",
    "bahdanau_lengths": "",
}
