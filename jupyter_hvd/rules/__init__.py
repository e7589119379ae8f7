"""What to change in a program, and why: a family of rules for a framework and a backend."""

from . import tensorflow_horovod as tensorflow_horovod  # so that all codes are known
