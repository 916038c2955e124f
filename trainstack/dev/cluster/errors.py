"""The one error of this package; its text says what, where and what to do."""


class ClusterError(Exception):
    """The local cluster cannot do what was asked."""
