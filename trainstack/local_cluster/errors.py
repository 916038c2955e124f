from trainstack.errors import TrainstackError


class LocalClusterError(TrainstackError):
    """An operation on the local cluster failed; the text gives the cause and the remedy."""
