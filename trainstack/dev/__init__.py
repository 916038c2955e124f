"""The local cluster, builds of images, and the toolchain."""
