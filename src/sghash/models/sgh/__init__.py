"""Stochastic Generative Hashing: one file per idea.

| file            | idea                                                                     |
|-----------------|--------------------------------------------------------------------------|
| `generative`    | p(x given h): the Gaussian decoder, and what any decoder must offer      |
| `decoders`      | other decoders, for the general path (`GeneralSGH`)                      |
| `encoder`       | q(h given x): independent bits, their moments and divergence             |
| `gradients`     | the four gradients for the encoder                                       |
| `objective`     | nats by enumeration, description length in closed form                   |
| `parameters`    | the trained numbers as one flat vector                                   |
| `optimizer`     | Adam, SGD, schedules, the theorems' random iterate                       |
| `scaling`       | the trainer's units                                                      |
| `batches`       | batches from memory or beyond                                            |
| `start`         | where training starts                                                    |
| `least_squares` | the decoder that fits given codes best                                   |
| `terms`         | extra losses                                                             |
| `supervision`   | labels and known pairs, as terms                                         |
| `scale_step`    | the step of the model with scales (`ScaleInvariantSGH`)                  |
| `step`          | one step's gradient: the Gaussian fast path, and any decoder             |
| `trainer`       | distributional SGD                                                       |
| `posterior`     | sharper codes by coordinate descent                                      |
| `asymmetric`    | real queries against codes                                               |
| `options`       | what is legal, and the presets                                           |
| `fitting`       | options and vectors to learned attributes                                |
| `inference`     | what a fitted model can do                                               |
| `estimator`     | `SGH`                                                                    |
"""

from __future__ import annotations

from sghash.models.sgh.asymmetric import QueryTables
from sghash.models.sgh.estimator import SGH
from sghash.models.sgh.gradients import encoder_gradient
from sghash.models.sgh.objective import DescriptionLength, objective

__all__ = ["SGH", "DescriptionLength", "QueryTables", "encoder_gradient", "objective"]
