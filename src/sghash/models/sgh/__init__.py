"""Stochastic Generative Hashing.

| place        | idea                                                                        |
|--------------|-----------------------------------------------------------------------------|
| `estimator`  | `SGH`                                                                       |
| `recipe`     | what is legal, and the presets                                              |
| `inference`  | what a fitted model can do                                                  |
| `asymmetric` | real queries against codes                                                  |
| `paper/`     | the model, its encoder, objective and gradients, equation by equation       |
| `training/`  | Algorithm 1: from options and vectors to learned attributes                 |
| `losses/`    | losses beside the description length: neighbours, labels, known pairs       |
| `variants/`  | other decoders, scales, integer programs                                    |
| `deep/`      | the same idea with layers, for PyTorch                                      |
"""

from __future__ import annotations

from sghash.models.sgh.asymmetric import QueryTables
from sghash.models.sgh.estimator import SGH
from sghash.models.sgh.paper.gradients import encoder_gradient
from sghash.models.sgh.paper.objective import DescriptionLength, objective
from sghash.models.sgh.recipe import Recipe

__all__ = ["SGH", "DescriptionLength", "QueryTables", "Recipe", "encoder_gradient", "objective"]
