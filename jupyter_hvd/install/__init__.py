"""Horovod, built for the TensorFlow of this environment: `jupyter hvd install`.

`build.py` says what is built and with which flags, `run.py` does it. `patches/` is what Horovod's last release needs
beside them; each patch begins with its reason.
"""
