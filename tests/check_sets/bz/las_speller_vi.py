"""Listen, Attend and Spell - bộ giải mã (speller) cho nhận dạng tiếng nói tiếng Việt.

Điểm chú ý là tích vô hướng giữa hai phép chiếu (không chia căn, đúng như bài báo LAS):

    e_u = <phi(s_i), psi(h_u)>,   alpha = softmax(e),   c_i = sum_u alpha_u h_u

Các khung đệm (u >= độ dài) bị loại khỏi softmax.
"""
import torch
import torch.nn as nn


class AttendLayer(nn.Module):
    def __init__(self, state_dim, listener_dim, att_dim):
        super().__init__()
        self.phi = nn.Linear(state_dim, att_dim)
        self.psi = nn.Linear(listener_dim, att_dim)

    def forward(self, s, h, psi_h, pad):
        e = torch.einsum("ba,bua->bu", self.phi(s), psi_h)
        e = e - 10.0 * pad.to(e.dtype)
        alpha = torch.softmax(e, dim=-1)
        return torch.einsum("bu,bud->bd", alpha, h), alpha


class Speller(nn.Module):
    """Giải mã từng ký tự; forward nhận chuỗi đích (teacher forcing)."""

    def __init__(self, n_chars=40, emb=16, state_dim=32, listener_dim=24, att_dim=128):
        super().__init__()
        self.embed = nn.Embedding(n_chars, emb)
        self.cell = nn.LSTMCell(emb + listener_dim, state_dim)
        self.attend = AttendLayer(state_dim, listener_dim, att_dim)
        self.classify = nn.Linear(state_dim + listener_dim, n_chars)
        self.listener_dim = listener_dim

    def step(self, char, context, state, h, psi_h, pad):
        x = torch.cat([self.embed(char), context], dim=-1)
        state = self.cell(x, state)
        context, alpha = self.attend(state[0], h, psi_h, pad)
        logits = self.classify(torch.cat([state[0], context], dim=-1))
        return logits, context, state, alpha

    def forward(self, chars, h, lengths):
        """chars (B, L), h (B, U, listener_dim), lengths (B,) -> logits (B, L, n_chars), alpha (B, L, U)"""
        pad = torch.arange(h.size(1), device=h.device)[None, :] >= lengths[:, None]
        psi_h = self.attend.psi(h)
        context, state = h.new_zeros(h.size(0), self.listener_dim), None
        out, maps = [], []
        for c in chars.unbind(1):
            logits, context, state, alpha = self.step(c, context, state, h, psi_h, pad)
            out.append(logits)
            maps.append(alpha)
        return torch.stack(out, 1), torch.stack(maps, 1)


if __name__ == "__main__":
    sp = Speller()
    y, a = sp(torch.randint(0, 40, (2, 5)), torch.randn(2, 12, 24), torch.tensor([12, 7]))
    print(y.shape, a.shape)
