"""The local cluster and the toolchain."""
