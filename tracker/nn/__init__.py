"""Functions for neural networks, on arrays in the layout NCHW.

They are functions without state: weights are arguments, random numbers come from a generator that
is passed, and a network is the Python code that calls them. They differentiate to any order and
compile; float32 stays float32.

>>> from tracker import nn
>>> images, kernels = np.ones((2, 1, 6, 6)), np.ones((3, 1, 3, 3))
>>> nn.maxpool(nn.relu(nn.conv(images, kernels)), 2).shape
(2, 3, 2, 2)
"""

from tracker.nn.activations import (
    elu,
    gelu,
    leaky_relu,
    logsigmoid,
    logsoftmax,
    logsumexp,
    relu,
    sigmoid,
    softmax,
    softplus,
)
from tracker.nn.convolution import conv, depthwiseconv, maxpool, meanpool
from tracker.nn.layers import batchnorm, crossentropy, dropout

__all__ = [
    "batchnorm",
    "conv",
    "crossentropy",
    "depthwiseconv",
    "dropout",
    "elu",
    "gelu",
    "leaky_relu",
    "logsigmoid",
    "logsoftmax",
    "logsumexp",
    "maxpool",
    "meanpool",
    "relu",
    "sigmoid",
    "softmax",
    "softplus",
]


def __dir__() -> list[str]:
    return __all__
