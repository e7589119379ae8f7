"""The rules, which say what to change in a program and why: one family for each framework and backend."""

from . import tensorflow_horovod as tensorflow_horovod  # so that all codes are known
