"""Distribute, differentiate and inspect training code in notebooks.

Importing this package loads neither TensorFlow nor JAX nor Horovod, and not
LibCST before something is converted.
"""

__version__ = "0.1.0"
