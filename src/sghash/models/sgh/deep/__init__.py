"""SGH with any network as encoder and decoder: trained by PyTorch, used without it.

| file        | idea                                                              |
|-------------|-------------------------------------------------------------------|
| `layers`    | a network as a list of layers and one vector of numbers; NumPy    |
| `neuron`    | the stochastic neuron, and the loss of codes, for autograd        |
| `modules`   | ready networks, and networks as layers                            |
| `pairs`     | which pairs of vectors shall have near codes                      |
| `training`  | the steps                                                         |
| `estimator` | `DeepSGH`                                                         |

Only `neuron`, `modules` and `training` need PyTorch (the extra `torch`).
"""

from __future__ import annotations

from sghash.models.sgh.deep.estimator import DeepSGH

__all__ = ["DeepSGH"]
