"""The model of the paper, equation by equation, in the order of its text.

| equation | says                              | function                                        |
|----------|-----------------------------------|-------------------------------------------------|
| 1        | likelihood and prior              | `generative.GaussianDecoder`, `log_prior`       |
| 2        | the joint distribution            | `generative.log_joint`                          |
| 3        | the encoder                       | `encoder.log_encoder`                           |
| 4        | the objective                     | `objective.objective`, `description_length`     |
| 5        | the stochastic neuron             | `encoder.stochastic_neuron`                     |
| 6        | the objective through the neuron  | `objective.reparametrized_objective`            |
| 7        | distributional derivative by W    | `gradients.distributional_derivative`           |
| 8        | unbiased gradient by everything   | `gradients.unbiased_gradient`                   |
| 9        | approximate derivative by W       | `gradients.approximate_derivative`              |
| 10       | biased gradient by everything     | `gradients.approximate_gradient`                |

Equations 11 (iterative quantization) and 12 (binary autoencoder) are what equation 4 becomes for
certain bits: `sghash.models.baselines` has both models. `posterior` is ours.
"""
