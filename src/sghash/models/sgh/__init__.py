"""Stochastic Generative Hashing.

| place        | idea                                                                        |
|--------------|-----------------------------------------------------------------------------|
| `estimator`  | `SGH`                                                                       |
| `options`    | which options are legal, and which have no effect beside others             |
| `recipe`     | `Recipe`: how it is trained, beyond the options; presets and saved options  |
| `inference`  | what a fitted model can do                                                  |
| `scores`     | logits of many rows, for the kernel that packs their signs                  |
| `paper/`     | the model, its encoder, objective and gradients, equation by equation       |
| `training/`  | Algorithm 1: from settings and vectors to what is learned                   |
| `losses/`    | losses beside the description length: neighbours, labels, known pairs       |
| `variants/`  | other decoders, scales, integer programs; layers on both sides, for PyTorch |
"""

from __future__ import annotations

from sghash.models.sgh.estimator import SGH
from sghash.models.sgh.paper.gradients import encoder_gradient
from sghash.models.sgh.paper.objective import DescriptionLength, objective
from sghash.models.sgh.recipe import Recipe

__all__ = ["SGH", "DescriptionLength", "Recipe", "encoder_gradient", "objective"]
