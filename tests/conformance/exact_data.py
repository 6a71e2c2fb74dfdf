"""A control for tests that round their data to fp16: the same tests, with random data that fp16 holds exactly.

Under an fp32 backend many tests draw random inputs and weights, compute what they expect from them, round them to
fp16, build the program with what is left, and compare to 1e-4: no executor can give back what the rounding took. With
multiples of 1/16 there is nothing to take. A test that fails as it is and passes here fails for its rounding alone.
"""

import numpy as np

STEP = 1 / 16


def _coarse(value):
    """Floats to the nearest multiple of STEP; whole numbers, and what is no number, as they are."""
    if isinstance(value, float):
        return round(value / STEP) * STEP
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return (np.round(value / STEP) * STEP).astype(value.dtype)
    return value


def _wrapped(draw):
    return lambda *args, **kwargs: _coarse(draw(*args, **kwargs))


def _wrap_torch():
    import torch

    def coarse(tensor):
        return torch.round(tensor / STEP) * STEP if tensor.is_floating_point() else tensor

    def wrapped(draw):
        return lambda *args, **kwargs: coarse(draw(*args, **kwargs))

    def initialised(reset):
        def reset_and_round(module):
            reset(module)
            with torch.no_grad():
                for parameter in module.parameters(recurse=False):
                    parameter.copy_(coarse(parameter))

        return reset_and_round

    for name in ("rand", "randn"):
        setattr(torch, name, wrapped(getattr(torch, name)))
    for kind in (torch.nn.modules.conv._ConvNd, torch.nn.RNNBase, torch.nn.Linear):
        kind.reset_parameters = initialised(kind.reset_parameters)


def install():
    for name in ("rand", "randn", "random", "random_sample", "uniform", "normal"):
        setattr(np.random, name, _wrapped(getattr(np.random, name)))
    try:
        _wrap_torch()
    except ImportError:
        pass
