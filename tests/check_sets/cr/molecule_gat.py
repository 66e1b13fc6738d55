"""Graph attention (Velickovic et al., 2018) on dense bond matrices, for small molecules."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MoleculeGAT(nn.Module):
    def __init__(self, c_in, c_out, heads=4, slope=0.2):
        super().__init__()
        self.heads, self.c_out, self.slope = heads, c_out, slope
        self.lin = nn.Linear(c_in, heads * c_out, bias=False)
        self.a_recv = nn.Parameter(torch.empty(heads, c_out))
        self.a_send = nn.Parameter(torch.empty(heads, c_out))
        nn.init.xavier_uniform_(self.a_recv)
        nn.init.xavier_uniform_(self.a_send)

    def forward(self, atoms, bonds):
        """
        atoms: (B, N, c_in)
        bonds: (B, N, N) bool, bonds[b, i, j] is True when atom i receives from atom j.
               Self loops are added here, so the diagonal may be anything.
        returns (B, N, heads * c_out)
        """
        B, N, _ = atoms.shape
        h = self.lin(atoms).view(B, N, self.heads, self.c_out)
        recv = (h * self.a_recv).sum(-1)
        send = (h * self.a_send).sum(-1)
        # a^T [h_i || h_j] splits into the two halves of a
        e = F.leaky_relu(recv.unsqueeze(2) + send.unsqueeze(1), self.slope)
        loops = torch.eye(N, dtype=torch.bool, device=atoms.device)
        e = e.masked_fill(~(bonds | loops).unsqueeze(-1), float("-inf"))
        alpha = F.softmax(e, dim=2)  # (B, receiver, sender, head): over the senders
        out = torch.einsum("bijh,bjhc->bihc", alpha, h)
        return F.elu(out.flatten(2))
