"""The stochastic neuron for autograd, with all four estimators of the encoder's gradient.

Codes are -1/+1. With l(h) the loss of a row, its gradient by the logit z_k is p_k (1 - p_k) D_k:

| estimator          | at h =     | D_k                                                    |
|--------------------|------------|--------------------------------------------------------|
| "approximate"      | a draw     | 2 dl / dh_k                                            |
| "distributional"   | a draw     | l(h_k = 1) - l(h_k = -1), one extra pass per bit       |
| "exact"            | the mean   | of E l, for a linear decoder and squared error         |
| "straight-through" | [p >= 1/2] | 2 dl / dh_k                                            |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sghash.optional import require

torch: Any = require("torch", extra="torch")


class StochasticNeuron(torch.autograd.Function):
    """Codes h = sign(p - xi) of logits; the gradient by h passes as if h were 2 p."""

    @staticmethod
    def forward(ctx: Any, logits: Any, thresholds: Any) -> Any:
        """-1/+1 for logits (m, l), against thresholds (m, l) or a number."""
        p = torch.sigmoid(logits)
        ctx.save_for_backward(p)
        return torch.where(p > thresholds, 1.0, -1.0).to(logits.dtype)

    @staticmethod
    def backward(ctx: Any, by_code: Any) -> Any:
        """2 p (1 - p) times the gradient by h."""
        (p,) = ctx.saved_tensors
        return 2 * p * (1 - p) * by_code, None


def code_loss(
    logits: Any,
    row_loss: Callable[[Any], Any],
    *,
    estimator: str,
    generator: Any,
    spread_loss: Callable[[Any], Any] | None = None,
) -> Any:
    """Mean loss of codes of `logits` (m, l), with the estimator's gradient by the logits.

    `row_loss` gives the loss (m,) of codes (m, l). "exact" also needs `spread_loss`, what
    variances (m, l) of the bits add to the loss of their mean (only a quadratic loss has one).
    """
    p = torch.sigmoid(logits)
    if estimator == "exact":
        if spread_loss is None:
            raise ValueError("the exact gradient needs spread_loss")
        return (row_loss(2 * p - 1) + spread_loss(4 * p * (1 - p))).mean()
    if estimator == "straight-through":
        return row_loss(StochasticNeuron.apply(logits, 0.5)).mean()
    draws = torch.rand(logits.shape, generator=generator, dtype=logits.dtype, device="cpu")
    draws = draws.to(logits.device)
    if estimator == "approximate":
        return row_loss(StochasticNeuron.apply(logits, draws)).mean()
    codes = torch.where(p > draws, 1.0, -1.0).to(logits.dtype).detach()
    here = row_loss(codes)
    change = _differences(codes, row_loss, here.detach())
    return here.mean() + (change * (p - p.detach())).sum(dim=1).mean()


def _differences(codes: Any, row_loss: Callable[[Any], Any], here: Any) -> Any:
    """l(h_k = 1) - l(h_k = -1) for every bit, the others as in `codes`."""
    change = torch.empty_like(codes)
    with torch.no_grad():
        for k in range(codes.shape[1]):
            flipped = codes.clone()
            flipped[:, k] = -flipped[:, k]
            change[:, k] = codes[:, k] * (here - row_loss(flipped))
    return change
